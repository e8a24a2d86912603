"use strict";
// What pages do: a link into a folded section opens it, a thumbnail of the gallery opens its figure.
const unfold = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target.scrollIntoView();
};
window.addEventListener("hashchange", unfold);
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((fold) => (fold.open = true)));
unfold();
for (const thumbnail of document.querySelectorAll(".gallery button"))
  thumbnail.addEventListener("click", () => {
    const figure = document.createElement("dialog"), close = document.createElement("button");
    const picture = thumbnail.querySelector("img").cloneNode(), command = document.createElement("code");
    figure.className = "figure";
    close.textContent = "Close";
    command.textContent = thumbnail.dataset.command;
    picture.removeAttribute("loading");
    figure.append(close, picture, thumbnail.querySelector("span").textContent, command);
    figure.addEventListener("click", ({ target }) => [figure, close].includes(target) && figure.close());
    figure.addEventListener("close", () => figure.remove());
    document.body.append(figure);
    figure.showModal();
  });
