/* One output's row as bars, a line for each input; also what a screen reader reads in place of the heatmaps.

   Only the lines that can be seen are in the document, between two that keep the room of the others: a table of
   hundreds of words would make the slider wait. `aria-rowindex` says which they are. */

const LINE = 30, LINES_SEEN = 26; // height of a line, and how many the box shows with some to spare: as in page.css

class Bars {
  constructor(probes) {
    this.probes = probes;
    this.caption = make("caption", {});
    this.body = make("tbody", {});
    [this.above, this.below] = [0, 1].map(() => make("tr", { className: "room", ariaHidden: "true" }));
    const heads = probes.map((probe) => make("th", { scope: "col", title: probe.meaning }, probe.label));
    const head = make("thead", {}, make("tr", { ariaRowIndex: "1" }, make("th", { scope: "col" }, "input"), ...heads));
    this.table = make("table", {}, this.caption, head, this.body);
    this.element = make("div", { className: "bars", tabIndex: 0, role: "region", ariaLabel: "values of the chosen output" }, this.table);
    this.element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
  }

  /** Lines for the inputs of another sentence or row. */
  show({ source, target }, t, links) {
    this.source = source;
    this.known = new Set((links ?? []).filter((link) => link[0] === t).map((link) => link[1]));
    this.caption.replaceChildren("The row of ", make("b", { dir: "auto" }, target[t]), `, output ${t + 1} of ${target.length}`);
    this.table.setAttribute("aria-rowcount", source.length + 1);
    this.rows = null; // those of before are of another sentence
    this.unroll();
  }

  /** Lengths and numbers of a step; `rows` has the row of each probe. */
  paint(rows) {
    this.rows = rows;
    const most = rows.map(largest);
    for (const [i, line] of this.lines.entries())
      for (const [p, probe] of this.probes.entries()) this.#cell(line.children[p + 1], probe.scale, rows[p][this.first + i], most[p]);
  }

  /** Have so many lines in the document: all of them on paper. */
  unroll(count = LINES_SEEN) {
    this.lines = this.source.slice(0, count).map(() => {
      const cells = this.probes.map(() => make("td", {}, make("span", {}, "–")));
      return make("tr", {}, make("th", { scope: "row", dir: "auto" }), ...cells);
    });
    this.body.replaceChildren(this.above, ...this.lines, this.below);
    this.first = NaN;
    this.#scrolled();
  }

  /** Let the lines stand for the inputs that the box is scrolled to. */
  #scrolled() {
    const spare = this.source.length - this.lines.length;
    const first = Math.min(Math.max(Math.floor(this.element.scrollTop / LINE) - 3, 0), spare);
    if (first === this.first) return;
    this.first = first;
    for (const [i, line] of this.lines.entries()) this.#name(line, first + i);
    for (const [room, lines] of [[this.above, first], [this.below, spare - first]]) {
      room.hidden = !lines;
      room.style.height = `${lines * LINE}px`;
    }
    if (this.rows) this.paint(this.rows);
  }

  #name(line, l) {
    const head = line.firstChild;
    line.ariaRowIndex = String(l + 2); // the head is line 1
    head.textContent = head.title = this.source[l];
    head.className = this.known.has(l) ? "gold" : "";
  }

  #cell(cell, kind, value, most) {
    const share = barOf(kind, value, most), said = say(kind, value, most), text = cell.firstChild.firstChild;
    cell.dataset.value = value;
    cell.className = share < 0 ? "less" : "";
    cell.style.setProperty("--share", `${Math.abs(100 * share).toFixed(1)}%`); // of its ground: a width would be laid out
    if (text.data !== said) text.data = said;
  }
}

/** How long a bar is, -1 to 1: a share of a row, a probability, or a part of the row's largest value. */
function barOf(kind, value, most) {
  if (!Number.isFinite(value)) return 0;
  if (kind === "weight") return value;
  return kind === "log-odds" ? 1 / (1 + Math.exp(-value)) : value / (most || 1);
}
