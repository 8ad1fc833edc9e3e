/* Puts the parts of the page together. */

const chart = new Chart(document.getElementById("curves"));
const viewer = new Viewer(document.getElementById("viewer"), (step) => chart.mark(step));
new SentenceList(document.getElementById("sentences"), viewer);
new Dictionary(document.getElementById("dictionary"));

/** Light, dark, or as the system has it. */
document.getElementById("theme").addEventListener("change", (event) => {
  document.documentElement.style.colorScheme = event.target.value;
  viewer.restyle();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => viewer.restyle());
performance.mark("ready"); // benchmarks/report.py reads it
