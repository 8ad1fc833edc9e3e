/* The sentence viewer: heatmaps side by side, a slider over training steps, one row as bars. */

const HINT = "Point at a cell, or move over a heatmap with the arrow keys, to read its values.";

class Viewer {
  /** `root` holds the markup of viewer.html; `moved(step)` hears of every move of the slider. */
  constructor(root, moved = () => {}) {
    this.part = (name) => root.querySelector(`[data-part="${name}"]`);
    this.moved = moved;
    this.sentence = 0;
    this.site = "mean";
    this.on = { point: (t, l) => this.point(t, l), pick: (t) => this.pick(t) };
    this.#controls();
    this.chooseRun(0);
    new ResizeObserver(() => this.fit()).observe(this.part("panels"));
    addEventListener("beforeprint", () => this.bars.unroll(Infinity));
    addEventListener("afterprint", () => this.bars.unroll());
  }

  #controls() {
    const { slider, play, run, site, colour } = this.controls = Object.fromEntries(
      ["slider", "play", "run", "site", "colour"].map((name) => [name, this.part(name)]));
    slider.addEventListener("input", () => this.go(Number(slider.value)));
    play.addEventListener("click", () => this.play(!this.timer));
    run.replaceChildren(...DATA.views.map((view, i) => make("option", { value: String(i) }, view.run)));
    run.closest("label").hidden = DATA.views.length < 2;
    run.addEventListener("change", () => this.chooseRun(Number(run.value)));
    site.addEventListener("change", () => {
      this.site = /^\d+$/.test(site.value) ? Number(site.value) : site.value;
      this.paint();
    });
    colour.addEventListener("change", () => this.restyle());
  }

  /** Show another run: its steps and heads, from its best step on. */
  chooseRun(number) {
    this.play(false);
    this.view = DATA.views[number];
    this.view.decoded ??= this.view.probes.map((record) => new Probe(record, DATA.sentences));
    this.probes = this.view.decoded;
    const sites = this.probes.find((probe) => probe.sites.length > 1)?.sites ?? [];
    const names = [["mean", "mean of all"], ["max", "highest of all"], ...sites.map((name, i) => [String(i), name || String(i)])];
    this.controls.site.replaceChildren(...names.map(([value, name]) => make("option", { value }, name)));
    this.controls.site.closest("label").hidden = !sites.length;
    this.site = "mean";
    this.controls.slider.max = this.view.steps.length - 1;
    this.part("steps").hidden = this.view.steps.length < 2;
    this.step = this.view.best;
    this.bars = new Bars(this.probes);
    this.part("bars").replaceChildren(this.bars.element);
    this.panels = null;
    this.choose(this.sentence);
  }

  /** Show another sentence. */
  choose(number) {
    this.sentence = number;
    this.at = null;
    const sentence = DATA.sentences[number], Panel = sentence.target.length === 1 ? Strip : Heatmap;
    if (!(this.panels?.[0] instanceof Panel)) {
      this.panels = this.probes.map((probe) => new Panel(probe, this.on));
      this.part("panels").replaceChildren(...this.panels.map((panel) => panel.element));
      if (Panel === Heatmap) this.#scrollTogether();
    }
    this.part("pick").hidden = Panel === Strip;
    this.part("source").textContent = textOf(sentence.source);
    this.part("target").textContent = textOf(sentence.target);
    this.part("number").textContent = `sentence ${sentence.number}`;
    for (const [i, panel] of this.panels.entries()) panel.show(sentence, sentence.links, i === 0);
    this.row = 0;
    this.#showRow();
    this.#shade();
    this.fit();
    this.point();
  }

  /** Panels of one sentence scroll as one. */
  #scrollTogether() {
    const scrollers = this.panels.map((panel) => panel.scroller);
    for (const scroller of scrollers)
      scroller.addEventListener("scroll", () => {
        for (const other of scrollers)
          if (other !== scroller && (other.scrollLeft !== scroller.scrollLeft || other.scrollTop !== scroller.scrollTop))
            [other.scrollLeft, other.scrollTop] = [scroller.scrollLeft, scroller.scrollTop];
      }, { passive: true });
  }

  #shade() {
    const byRow = this.controls.colour.value === "row";
    this.shadings = this.probes.map((probe) => shading(probe.scale, byRow));
  }

  /** Another scale, or another theme. */
  restyle() {
    this.#shade();
    this.fit();
  }

  fit() {
    for (const panel of this.panels) panel.fit();
    this.paint();
  }

  /** Go to a step, by its place on the slider. */
  go(step) {
    this.step = Math.min(Math.max(step, 0), this.view.steps.length - 1);
    this.paint();
    this.moved(this.view.steps[this.step]);
  }

  /** Draw what the step, head and row that are chosen say. */
  paint() {
    this.values = this.probes.map((probe) => probe.matrix(this.sentence, this.step, this.site));
    for (const [i, panel] of this.panels.entries())
      panel.paint(this.values[i], this.shadings[i], this.probes[i].peaksOf(this.sentence, this.step, this.site));
    this.#tell();
    this.#paintBars();
    const step = this.view.steps[this.step], p = this.view.performance?.[this.step];
    const agreement = this.view.agreement?.[this.sentence]?.[this.step];
    const said = [`step ${step}`, p == null ? "" : `${DATA.about.measure} ${p.toFixed(3)}`,
      agreement == null ? "" : `A(α, β) here ${agreement.toFixed(2)}`].filter(Boolean);
    this.part("step").textContent = said.join(" · ");
    this.controls.slider.value = this.step;
    this.controls.slider.ariaValueText = said.join(", ");
    if (this.at) this.point(...this.at);
  }

  /** Below each legend: what its peaks are, and what a sink holds. */
  #tell() {
    for (const [i, panel] of this.panels.entries())
      panel.tell(this.probes[i].sinksOf(this.sentence, this.step, this.site), this.row);
  }

  #paintBars() {
    const L = DATA.sentences[this.sentence].source.length;
    this.bars.paint(this.values.map((values) => values.subarray(this.row * L, this.row * L + L)));
  }

  /** Choose a row: its values as bars. */
  pick(t) {
    this.row = t;
    this.#showRow();
    this.#tell();
    this.#paintBars();
  }

  #showRow() {
    const sentence = DATA.sentences[this.sentence];
    this.bars.show(sentence, this.row, sentence.links);
    for (const panel of this.panels) panel.pick(this.row);
  }

  /** Say the values of a cell, and mark it in every panel; without one, stop. */
  point(t, l) {
    this.at = t === undefined ? null : [t, l];
    for (const panel of this.panels) panel.mark(t, l);
    this.part("readout").replaceChildren(...(this.at ? this.#read(t, l) : [HINT]));
  }

  #read(t, l) {
    const { source, target } = DATA.sentences[this.sentence], L = source.length;
    const said = this.probes.map((probe, i) => {
      const row = this.values[i].subarray(t * L, t * L + L);
      return `${probe.label} ${sayAll(probe.scale, row[l], largest(row))}`;
    });
    return [make("bdi", {}, source[l]), " → ", make("bdi", {}, target[t]), `: ${said.join(" · ")}`];
  }

  /** Let the slider run, or stop it. */
  play(on) {
    clearInterval(this.timer);
    this.timer = 0;
    this.controls.play.textContent = on ? "❚❚ Pause" : "▶ Play";
    if (!on) return;
    if (this.step === this.view.steps.length - 1) this.go(0);
    this.timer = setInterval(() => {
      this.go(this.step + 1);
      if (this.step === this.view.steps.length - 1) this.play(false);
    }, 600);
  }
}
