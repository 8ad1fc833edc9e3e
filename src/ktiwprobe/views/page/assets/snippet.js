/* The viewer alone, in a frame that is as high as it needs. */

new Viewer(document.getElementById("viewer"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => location.reload());
new ResizeObserver(() => {
  if (window.frameElement) window.frameElement.style.height = `${document.documentElement.offsetHeight + 2}px`;
}).observe(document.body);
