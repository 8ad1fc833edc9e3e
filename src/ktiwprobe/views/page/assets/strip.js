/* A sentence with one output, as a classifier has: the text itself, every input on a ground of its shade. */

class Strip {
  constructor(probe, on) {
    this.probe = probe;
    this.on = on;
    this.legend = make("div", { className: "legend", ariaHidden: "true" });
    this.notes = make("p", { className: "notes" });
    this.text = make("p", { className: "strip", dir: "auto" });
    const title = make("figcaption", {}, make("b", {}, probe.label), ` ${probe.meaning}`);
    this.element = make("figure", { className: "heatmap wide" }, title, this.legend, this.notes, this.text);
  }

  show({ source }, links) {
    const known = new Set((links ?? []).map(([, l]) => l));
    this.words = source.map((token, l) => make("span", {
      dir: "auto", className: known.has(l) ? "gold" : "",
      onpointerenter: () => this.on.point(0, l), onpointerleave: () => this.on.point(),
    }, token.replace("▁", "") || "▁"));
    this.text.replaceChildren(...this.words.flatMap((word) => [word, " "]));
  }

  fit() {}

  paint(values, how, [peak]) {
    const colours = rampOf(how.scale), [low, high] = rangeOf(values);
    for (const [l, word] of this.words.entries()) {
      const unseen = Number.isNaN(values[l]), colour = colours[how.at(values[l], low, high)];
      word.classList.toggle("peak", l === peak);
      const ground = unseen ? "transparent" : css(colour);
      if (word.ground === ground) continue; // most words of a long text stay as they were
      word.ground = word.style.backgroundColor = ground;
      word.style.color = unseen ? "inherit" : inkOn(colour);
    }
    Heatmap.prototype.explain.call(this, how);
  }

  tell(sinks, row) {
    Heatmap.prototype.tell.call(this, sinks, row);
  }

  get peakMark() {
    return "Underlined is the";
  }

  mark(t, l) {
    for (const [i, word] of this.words.entries()) word.classList.toggle("here", i === l);
  }

  pick() {}
}
