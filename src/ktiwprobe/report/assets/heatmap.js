/* One sentence as a heatmap: outputs down, inputs across, the known links outlined.

   The cells are a canvas, the tokens are elements around it: they scroll, can be selected and keep their direction. */

const SMALLEST = 22, LARGEST = 38; // sides of a cell: long sentences scroll instead of shrinking
const UPRIGHT = /[⺀-鿿豈-﫿぀-ヿ가-힯]/; // scripts that stand upright when written downwards

class Heatmap {
  /** `on` has point(t, l) for the cell under pointer or cursor, or point() for none, and pick(t) for a row. */
  constructor(probe, on) {
    this.probe = probe;
    this.on = on;
    this.title = make("figcaption", {}, make("b", {}, probe.label), ` ${probe.meaning}`);
    this.legend = make("div", { className: "legend", ariaHidden: "true" });
    this.columns = make("div", { className: "columns" });
    this.rows = make("div", { className: "rows" });
    this.canvas = make("canvas", { tabIndex: 0, role: "group" });
    this.cursor = make("div", { className: "cursor", hidden: true });
    const cells = make("div", { className: "cells" }, this.canvas, this.cursor);
    this.scroller = make("div", { className: "scroller" }, make("div", { className: "corner" }), this.columns, this.rows, cells);
    this.element = make("figure", { className: "heatmap" }, this.title, this.legend, this.scroller);
    this.#listen();
  }

  #listen() {
    this.canvas.addEventListener("pointermove", (event) => this.on.point(...this.#cellAt(event)));
    this.canvas.addEventListener("pointerleave", () => this.on.point());
    this.canvas.addEventListener("blur", () => this.on.point());
    this.canvas.addEventListener("click", (event) => this.on.pick(this.#cellAt(event)[0]));
    this.canvas.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step && event.key !== "Enter") return;
      event.preventDefault();
      const { t, l } = this.at ?? { t: 0, l: 0 };
      if (!step) return this.on.pick(t);
      const inside = (place, size) => Math.min(Math.max(place, 0), size - 1);
      this.on.point(inside(t + (this.at ? step[0] : 0), this.T), inside(l + (this.at ? step[1] : 0), this.L));
    });
  }

  #cellAt(event) {
    const inside = (place, size) => Math.min(Math.max(Math.floor(place / this.side), 0), size - 1);
    return [inside(event.offsetY, this.T), inside(event.offsetX, this.L)];
  }

  /** Lay out another sentence; `first` is whether its rows are reached with the keyboard here. */
  show(sentence, links, first) {
    const { source, target } = sentence;
    [this.T, this.L, this.links, this.at] = [target.length, source.length, links ?? [], null];
    this.columns.replaceChildren(...source.map((token) =>
      make("span", { dir: "auto", title: token, className: UPRIGHT.test(token) ? "upright" : "" }, token)));
    this.rows.replaceChildren(...target.map((token, t) =>
      make("button", { type: "button", dir: "auto", title: token, tabIndex: first ? 0 : -1, onclick: () => this.on.pick(t) }, token)));
    this.canvas.ariaLabel = `${this.probe.label}: ${this.T} outputs by ${this.L} inputs; arrow keys read the cells`;
  }

  /** Choose the size of a cell for the room there is. */
  fit() {
    const room = this.element.clientWidth - this.rows.offsetWidth - 4;
    this.side = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(room / this.L)));
    this.element.style.setProperty("--side", `${this.side}px`);
    this.dots = Math.max(1, Math.round(this.side * devicePixelRatio)); // device pixels of a cell
    this.canvas.width = this.dots * this.L;
    this.canvas.height = this.dots * this.T;
    this.canvas.style.width = `${this.side * this.L}px`;
    this.canvas.style.height = `${this.side * this.T}px`;
  }

  /** Draw the values of a step. */
  paint(values, how) {
    const { T, L, dots } = this, context = this.canvas.getContext("2d");
    const small = new ImageData(L, T), colours = rampOf(how.scale);
    for (let t = 0; t < T; t++) {
      const [low, high] = rangeOf(values.subarray(t * L, t * L + L));
      for (let l = 0; l < L; l++) {
        const value = values[t * L + l];
        if (!Number.isNaN(value)) small.data.set([...colours[how.at(value, low, high)], 255], 4 * (t * L + l));
      }
    }
    const sheet = (this.sheet ??= document.createElement("canvas"));
    [sheet.width, sheet.height] = [L, T];
    sheet.getContext("2d").putImageData(small, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.imageSmoothingEnabled = false;
    context.drawImage(sheet, 0, 0, L * dots, T * dots);
    this.#rule(context);
    for (const [t, l, sure] of this.links) this.#outline(context, t, l, sure);
    this.explain(how);
  }

  /** Thin lines between the cells. */
  #rule(context) {
    context.fillStyle = getComputedStyle(this.canvas).color; // the style sheet makes it that of rules
    const wide = Math.max(1, Math.round(devicePixelRatio / 2));
    for (let l = 1; l < this.L; l++) context.fillRect(l * this.dots, 0, wide, this.canvas.height);
    for (let t = 1; t < this.T; t++) context.fillRect(0, t * this.dots, this.canvas.width, wide);
  }

  /** A known link: a line with a halo, so that it shows on any colour; dashed where it is only possible. */
  #outline(context, t, l, sure) {
    const theme = isDark() ? "dark" : "light", unit = devicePixelRatio, inset = 2 * unit;
    const box = [l * this.dots + inset, t * this.dots + inset, this.dots - 2 * inset, this.dots - 2 * inset];
    for (const [colour, width] of [[DATA.style.halo[theme], 4], [DATA.style.gold[theme], 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = width * unit;
      context.setLineDash(sure || width === 4 ? [] : [3 * unit, 2 * unit]);
      context.strokeRect(...box);
    }
    context.setLineDash([]);
  }

  /** The legend: the scale and what its ends mean. */
  explain(how) {
    const key = how.scale + isDark() + how.ends;
    if (this.explained === key) return;
    this.explained = key;
    const stops = rampOf(how.scale).filter((_, i) => i % 15 === 0).map(css);
    const bar = make("i", {});
    bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    this.legend.replaceChildren(how.ends[0], bar, how.ends[1]);
  }

  /** Mark a cell, or none. */
  mark(t, l) {
    this.at = t === undefined ? null : { t, l };
    this.cursor.hidden = !this.at;
    if (this.at) this.cursor.style.translate = `${l * this.side}px ${t * this.side}px`;
    for (const [i, label] of [...this.columns.children].entries()) label.classList.toggle("here", i === l);
  }

  /** Show which row is picked. */
  pick(t) {
    for (const [i, button] of [...this.rows.children].entries()) button.ariaPressed = String(i === t);
  }
}

/** The lowest and highest finite value. */
function rangeOf(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (Number.isFinite(value)) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return [low, high];
}
