/* One output's row as bars, a line for each input; also what a screen reader reads in place of the heatmaps. */

const LINE = 30, LINES_SEEN = 26; // height of a line, and how many the box shows with some to spare: as in page.css

class Bars {
  constructor(probes) {
    this.probes = probes;
    this.caption = make("caption", {});
    this.body = make("tbody", {});
    const heads = probes.map((probe) => make("th", { scope: "col", title: probe.meaning }, probe.label));
    const head = make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "input"), ...heads));
    this.element = make("div", { className: "bars", tabIndex: 0, role: "region", ariaLabel: "values of the chosen output" },
      make("table", {}, this.caption, head, this.body));
    this.element.addEventListener("scroll", () => this.#paintVisible(), { passive: true });
  }

  /** Lines for the inputs of another sentence or row. */
  show({ source, target }, t, links) {
    const known = new Set((links ?? []).filter((link) => link[0] === t).map((link) => link[1]));
    this.caption.replaceChildren("The row of ", make("b", { dir: "auto" }, target[t]), `, output ${t + 1} of ${target.length}`);
    this.body.replaceChildren(...source.map((token, l) => {
      const cells = this.probes.map(() => make("td", {}, make("i", {}), make("span", {}, "–")));
      const head = make("th", { scope: "row", dir: "auto", className: known.has(l) ? "gold" : "", title: token }, token);
      return make("tr", {}, head, ...cells);
    }));
  }

  /** Lengths and numbers of a step; `rows` has the row of each probe. */
  paint(rows) {
    this.rows = rows;
    this.#paintVisible();
  }

  /** Only the lines that can be seen: a text of hundreds of words must not make the slider wait. */
  #paintVisible() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / LINE) - 3), most = this.rows.map(largest);
    for (let l = first; l < Math.min(first + LINES_SEEN, this.body.children.length); l++)
      for (const [p, probe] of this.probes.entries()) this.#cell(this.body.children[l].children[p + 1], probe.name, this.rows[p][l], most[p]);
  }

  #cell(cell, name, value, most) {
    const [bar, number] = cell.children, share = barOf(name, value, most);
    cell.dataset.value = value;
    bar.className = share < 0 ? "less" : "";
    bar.style.scale = `${Math.abs(share).toFixed(3)} 1`; // a width would lay the whole table out again
    number.firstChild.data = say(name, value, most);
  }
}

/** How long a bar is, -1 to 1: a share of a row, a probability, or a part of the row's largest value. */
function barOf(name, value, most) {
  if (!Number.isFinite(value)) return 0;
  if (isWeight(name)) return value;
  return isLogOdds(name) ? 1 / (1 + Math.exp(-value)) : value / (most || 1);
}
