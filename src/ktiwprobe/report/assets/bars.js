/* One output's row as bars, a line for each input; also what a screen reader reads in place of the heatmaps. */

class Bars {
  constructor(probes) {
    this.probes = probes;
    this.caption = make("caption", {});
    this.body = make("tbody", {});
    const heads = probes.map((probe) => make("th", { scope: "col", title: probe.meaning }, probe.label));
    const head = make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "input"), ...heads));
    this.element = make("div", { className: "bars", tabIndex: 0, role: "region", ariaLabel: "values of the chosen output" },
      make("table", {}, this.caption, head, this.body));
  }

  /** Lines for the inputs of another sentence or row. */
  show({ source, target }, t, links) {
    const known = new Set((links ?? []).filter((link) => link[0] === t).map((link) => link[1]));
    this.caption.replaceChildren("The row of ", make("b", { dir: "auto" }, target[t]), `, output ${t + 1} of ${target.length}`);
    this.body.replaceChildren(...source.map((token, l) => {
      const cells = this.probes.map(() => make("td", {}, make("i", {}), make("span", {})));
      const head = make("th", { scope: "row", dir: "auto", className: known.has(l) ? "gold" : "" }, token);
      if (known.has(l)) head.title = "linked in the known alignment";
      return make("tr", {}, head, ...cells);
    }));
  }

  /** Lengths and numbers of a step; `rows` has the row of each probe. */
  paint(rows) {
    const most = rows.map(largest);
    for (const [l, line] of [...this.body.children].entries())
      for (const [p, probe] of this.probes.entries()) this.#cell(line.children[p + 1], probe.name, rows[p][l], most[p]);
  }

  #cell(cell, name, value, most) {
    const [bar, number] = cell.children, share = barOf(name, value, most);
    cell.dataset.value = value;
    cell.title = sayAll(name, value, most);
    bar.className = share < 0 ? "less" : "";
    bar.style.width = `${(100 * Math.abs(share)).toFixed(1)}%`;
    number.textContent = say(name, value, most);
  }
}

/** How long a bar is, -1 to 1: a share of a row, a probability, or a part of the row's largest value. */
function barOf(name, value, most) {
  if (!Number.isFinite(value)) return 0;
  if (isWeight(name)) return value;
  return isLogOdds(name) ? 1 / (1 + Math.exp(-value)) : value / (most || 1);
}
