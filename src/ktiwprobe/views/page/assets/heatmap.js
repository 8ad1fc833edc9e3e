/* One sentence as a heatmap: outputs down, inputs across, the known links outlined, a dot on the peak of each row.

   The cells are a canvas of one pixel each, which the browser enlarges, so that a step of a long sentence costs little;
   lines and outlines, the same at every step, are a second one over it, and the peaks a third. The tokens are elements around them: they
   scroll, can be selected and keep their direction. */

const SMALLEST = 18, LARGEST = 38; // sides of a cell: long sentences scroll instead of shrinking
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
    this.grid = make("canvas", { className: "grid", ariaHidden: "true" });
    this.dots = make("canvas", { className: "grid dots", ariaHidden: "true" });
    this.notes = make("p", { className: "notes" });
    const cells = make("div", { className: "cells" }, this.canvas, this.grid, this.dots, this.cursor);
    this.scroller = make("div", { className: "scroller" }, make("div", { className: "corner" }), this.columns, this.rows, cells);
    this.element = make("figure", { className: "heatmap" }, this.title, this.legend, this.notes, this.scroller);
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
    [this.canvas.width, this.canvas.height] = [this.L, this.T];
    for (const { style } of [this.canvas, this.grid, this.dots])
      [style.width, style.height] = [this.L, this.T].map((cells) => `${cells * this.side}px`);
    this.#rule();
  }

  /** Draw the values of a step, and `peaks`, the input of each row's highest. */
  paint(values, how, peaks) {
    const { T, L } = this, pixels = new ImageData(L, T), colours = packedRampOf(how.scale);
    const cells = new Uint32Array(pixels.data.buffer);
    for (let t = 0; t < T; t++) {
      const [low, high] = rangeOf(values.subarray(t * L, t * L + L));
      for (let cell = t * L; cell < t * L + L; cell++)
        if (!Number.isNaN(values[cell])) cells[cell] = colours[how.at(values[cell], low, high)];
    }
    this.canvas.getContext("2d").putImageData(pixels, 0, 0);
    this.#dot(peaks);
    this.explain(how);
  }

  /** A dot on each peak, with a halo as links have. */
  #dot(peaks) {
    const { dots, grid } = this, context = dots.getContext("2d"), theme = isDark() ? "dark" : "light";
    [dots.width, dots.height] = [grid.width, grid.height]; // which empties it
    const unit = this.side * devicePixelRatio;
    for (const [colour, radius] of [[DATA.style.halo[theme], 0.16], [DATA.style.gold[theme], 0.1]]) {
      context.fillStyle = colour;
      for (const [t, l] of peaks.entries()) {
        if (l === NO_PEAK) continue;
        context.beginPath();
        context.arc((l + 0.5) * unit, (t + 0.5) * unit, radius * unit, 0, 2 * Math.PI);
        context.fill();
      }
    }
  }

  /** Thin lines between the cells, and the known links, in device pixels. */
  #rule() {
    const { grid, L, T } = this, context = grid.getContext("2d");
    const at = (cell) => Math.round(cell * this.side * devicePixelRatio), wide = Math.max(1, Math.round(devicePixelRatio / 2));
    [grid.width, grid.height] = [at(L), at(T)];
    context.fillStyle = getComputedStyle(grid).color; // the style sheet makes it that of rules
    for (let l = 1; l < L; l++) context.fillRect(at(l), 0, wide, grid.height);
    for (let t = 1; t < T; t++) context.fillRect(0, at(t), grid.width, wide);
    for (const [t, l, sure] of this.links) this.#outline(context, [at(l), at(t), at(l + 1) - at(l), at(t + 1) - at(t)], sure);
  }

  /** A known link: a line with a halo, so that it shows on any colour; dashed where it is only possible. */
  #outline(context, [x, y, wide, high], sure) {
    const theme = isDark() ? "dark" : "light", unit = devicePixelRatio, inset = 2 * unit;
    for (const [colour, width] of [[DATA.style.halo[theme], 4], [DATA.style.gold[theme], 2]]) {
      context.strokeStyle = colour;
      context.lineWidth = width * unit;
      context.setLineDash(sure || width === 4 ? [] : [3 * unit, 2 * unit]);
      context.strokeRect(x + inset, y + inset, wide - 2 * inset, high - 2 * inset);
    }
  }

  /** What the marked peaks are, and how much of the weight is on no input: on average, and in the row that is picked. */
  tell(sinks, row) {
    this.notes.textContent = [`${this.peakMark} peak: ${this.probe.peak}.`, sinkText(sinks, row)].filter(Boolean).join(" ");
  }

  get peakMark() {
    return "●";
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
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

/** How much weight is on no input, in a sentence; none where all of it is on inputs. */
function sinkText(sinks, row) {
  if (!sinks) return "";
  const mean = sinks.reduce((sum, share) => sum + share, 0) / sinks.length;
  const said = `${percent(mean)} of the weight is on no input (a sink)`;
  return sinks.length > 1 ? `${said}, on average; in the chosen row ${percent(sinks[row])}.` : `${said}.`;
}
