"use strict";
// Without this script every sample is shown and no control that needs it appears.
(() => {
  const filters = document.getElementById("filters");
  if (filters) {
    const samples = Array.from(document.querySelectorAll(".sample"));
    const buttons = Array.from(filters.querySelectorAll("button"));
    const status = document.getElementById("shown");
    const chosen = { environment: "", rank: "" };
    const show = () => {
      const fits = (sample) =>
        Object.entries(chosen).every(([key, value]) => !value || sample.dataset[key] === value);
      samples.forEach((sample) => sample.classList.toggle("filtered-out", !fits(sample)));
      const count = samples.filter(fits).length;
      status.textContent =
        count === samples.length
          ? `Showing all ${count} samples.`
          : `Showing ${count} of ${samples.length} samples.`;
    };
    buttons.forEach((button) =>
      button.addEventListener("click", () => {
        chosen[button.dataset.filter] = button.dataset.value;
        buttons
          .filter((other) => other.dataset.filter === button.dataset.filter)
          .forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
        show();
      })
    );
    filters.hidden = false;
    // At first the environment that decides.
    const first = buttons.find((button) => button.dataset.value === filters.dataset.first);
    if (first && filters.dataset.first) first.click();
  }

  // What is folded is printed, and opened by a link to it.
  const folded = Array.from(document.querySelectorAll("details"));
  window.addEventListener("beforeprint", () => folded.forEach((each) => (each.open = true)));
  const unfold = () => {
    const target = document.getElementById(location.hash.slice(1));
    const around = target && target.closest("details");
    if (around) around.open = true;
  };
  window.addEventListener("hashchange", unfold);
  unfold();

  const copy = document.getElementById("copy");
  const copied = document.getElementById("copied");
  const command = document.getElementById("command");
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
      copied.textContent = "Copied.";
    } catch {
      // Where the browser forbids it, the command is at least selected.
      window.getSelection().selectAllChildren(command);
      copied.textContent = "Selected: copy it with the keyboard.";
    }
  });
})();
