// Pages opened from file:// may not start workers. There the search runs in a hidden frame of this page.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      this.ready = new Promise((loaded) => (frame.onload = () => loaded(frame.contentWindow)));
      frame.srcdoc = "<script>var __index = parent.__index;"
        + "postMessage = (data) => parent.dispatchEvent(new MessageEvent('found', { data }));</script>"
        + `<script src="${new URL(address, location)}"></script>`;
      addEventListener("found", ({ data }) => this.dispatchEvent(new MessageEvent("message", { data })));
      document.body.append(frame);
    }
    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
