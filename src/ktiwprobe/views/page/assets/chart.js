/* Curves over training steps as SVG, and the construction of ξ: from A(u, v) across to where another seed's attention
   passes it, from there to that seed's performance, and across to the axis. */

const SVG = "http://www.w3.org/2000/svg";

function draw(tag, attributes = {}, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

class Chart {
  constructor(root) {
    this.box = root.querySelector('[data-part="chart"]');
    this.values = root.querySelector('[data-part="values"]');
    this.which = root.querySelector('[data-part="which"]');
    this.told = root.querySelector('[data-part="construction"]');
    this.lines = DATA.curves;
    this.steps = [...new Set(this.lines.flatMap(({ points }) => points.map(([step]) => step)))].sort((a, b) => a - b);
    this.rows = DATA.rows.filter((row) => row.value !== null && row.xi !== null && this.#line("hat"));
    this.which.replaceChildren(...this.rows.map((row, i) => make("option", { value: String(i) }, row.label)));
    this.which.value = String(Math.max(0, this.rows.findIndex((row) => row.passed))); // one with a construction to see
    this.which.closest("p").hidden = !this.rows.length;
    this.which.addEventListener("change", () => this.paint());
    this.box.addEventListener("pointermove", (event) => this.#hover(event));
    this.box.addEventListener("pointerleave", () => this.#read(this.marked));
    root.querySelector('[data-part="key"]').replaceChildren(...this.lines.map((line) => this.#key(line)));
    new ResizeObserver(() => this.paint()).observe(this.box);
  }

  #line(key) {
    return this.lines.find((line) => line.key === key);
  }

  /** The class that the style sheet has for a line. */
  #look(line) {
    return `curve${this.lines.indexOf(line)}`;
  }

  #key(line) {
    const sample = draw("svg", { width: 34, height: 10, "aria-hidden": "true" });
    sample.append(draw("line", { x1: 1, x2: 33, y1: 5, y2: 5, class: `line ${this.#look(line)}` }));
    return make("li", {}, sample, make("b", {}, line.label), ` ${line.note}`);
  }

  /** Steps on a logarithmic axis that begins at 0: linear up to 10. */
  #place(step) {
    return step <= 10 ? step / 10 : 1 + Math.log10(step / 10);
  }

  paint() {
    const wide = Math.max(280, this.box.clientWidth), high = Math.min(380, Math.max(240, wide * 0.45));
    const left = 40, right = wide - 46, top = 14, bottom = high - 38, last = this.#place(this.steps.at(-1)) || 1;
    this.x = (step) => left + (this.#place(step) / last) * (right - left);
    this.y = (value) => bottom - value * (bottom - top);
    this.frame = { left, right, top, bottom };
    this.svg = draw("svg", { width: wide, height: high, role: "img", "aria-label": "agreement and performance over training steps; the table below has the values" });
    this.#axes();
    if (DATA.baseline !== null) this.#chance();
    for (const line of this.lines) this.#curve(line);
    this.#construct(this.rows[Number(this.which.value)]);
    this.now = draw("line", { class: "now", y1: top, y2: bottom, visibility: "hidden" });
    this.svg.append(this.now);
    this.box.replaceChildren(this.svg);
    this.mark(this.marked);
  }

  #axes() {
    const { left, right, top, bottom } = this.frame;
    for (const value of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
      this.svg.append(draw("line", { class: value ? "grid" : "axis", x1: left, x2: right, y1: this.y(value), y2: this.y(value) }));
      this.#text(left - 6, this.y(value) + 4, value.toFixed(1), "end");
    }
    const ticks = [0, 10, 100, 1000, 10_000, 100_000, 1_000_000].filter((step) => step <= this.steps.at(-1));
    const end = this.steps.at(-1);
    if (this.x(end) - this.x(ticks.at(-1)) > 44) ticks.push(end);
    for (const step of ticks) {
      this.svg.append(draw("line", { class: "axis", x1: this.x(step), x2: this.x(step), y1: bottom, y2: bottom + 4 }));
      this.#text(this.x(step), bottom + 17, String(step), "middle");
    }
    this.#text((left + right) / 2, bottom + 33, "training step", "middle");
    this.#text(left, top - 3, "agreement, accuracy", "start", "faint");
  }

  #text(x, y, text, anchor, look = "") {
    this.svg.append(draw("text", { x, y, "text-anchor": anchor, class: look }, text));
  }

  #chance() {
    const { left, right } = this.frame, y = this.y(DATA.baseline);
    this.svg.append(draw("line", { class: "chance", x1: left, x2: right, y1: y, y2: y }));
    this.#text(right + 3, y + 4, "chance", "start", "faint");
  }

  #curve(line) {
    const points = line.points.map(([step, value]) => [this.x(step), this.y(value)]);
    this.svg.append(draw("polyline", { class: `line ${this.#look(line)}`, points: points.map((point) => point.map((c) => c.toFixed(1)).join()).join(" ") }));
    for (const [cx, cy] of points) this.svg.append(draw("circle", { class: `dot ${this.#look(line)}`, cx, cy, r: 2.5 }));
  }

  /** ξ of one row of the table. */
  #construct(row) {
    if (!row) return;
    const { left, right, bottom } = this.frame, y = this.y(row.value);
    const passed = this.#line("hat").points.find(([, value]) => value > row.value);
    if (!passed || !row.passed) {
      this.svg.append(draw("path", { class: "xi", d: `M${left} ${y}H${right}` }));
      this.told.textContent = `A(α, α̂) never passes ${row.label} = ${row.value.toFixed(3)}: ξ is taken to be ξ* = ${row.xi_star.toFixed(3)}, the best ${row.performance} of the run itself.`;
      return;
    }
    const x = this.x(passed[0]), to = this.y(row.xi);
    this.svg.append(draw("path", { class: "xi", d: `M${left} ${y}H${x}M${x} ${bottom}V${Math.min(y, to)}M${x} ${to}H${right}` }));
    for (const [cx, cy] of [[x, this.y(passed[1])], [x, to]]) this.svg.append(draw("circle", { class: "xi-dot", cx, cy, r: 5 }));
    this.#text(right + 9, to + 4, "ξ", "start", "strong");
    this.#text(right + 9, to + 18, row.xi.toFixed(2), "start");
    this.#text(x + 6, bottom - 6, "τ₀", "start", "strong");
    this.told.textContent = `A(α, α̂) first passes ${row.label} = ${row.value.toFixed(3)} at step τ₀ = ${passed[0]}; the ${row.performance} of that seed is then ξ = ${row.xi.toFixed(3)} (ξ* = ${row.xi_star.toFixed(3)}).`;
  }

  #hover(event) {
    const at = event.clientX - this.box.getBoundingClientRect().left;
    const near = this.steps.reduce((a, b) => (Math.abs(this.x(a) - at) <= Math.abs(this.x(b) - at) ? a : b));
    this.#read(near);
  }

  /** Mark the step that the viewer shows. */
  mark(step) {
    this.marked = step;
    this.#read(step);
  }

  /** A line at a step, and what the curves are there. */
  #read(step) {
    const known = step !== undefined && this.now;
    this.values.textContent = "Point at the curves to read their values.";
    this.now?.setAttribute("visibility", known ? "visible" : "hidden");
    if (!known) return;
    for (const end of ["x1", "x2"]) this.now.setAttribute(end, this.x(step));
    const said = this.lines.flatMap(({ label, points }) => {
      const point = points.find(([at]) => at === step);
      return point ? [`${label} ${point[1].toFixed(3)}`] : [];
    });
    this.values.textContent = `step ${step}: ${said.join(" · ")}`;
  }
}
