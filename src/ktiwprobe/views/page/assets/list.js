/* The list of sentences: searched, sorted, walked through with the arrow keys. */

const LONGEST = 200; // characters of a text that a line of the list can show: the rest would only cost time
const ORDERS = {
  corpus: (a, b) => a.number - b.number,
  "agreement-low": (a, b) => (a.agreement ?? 2) - (b.agreement ?? 2),
  "agreement-high": (a, b) => (b.agreement ?? -1) - (a.agreement ?? -1),
  "surprise-high": (a, b) => b.surprise - a.surprise,
  "surprise-low": (a, b) => a.surprise - b.surprise,
};

class SentenceList {
  constructor(root, viewer) {
    this.viewer = viewer;
    this.search = root.querySelector('[data-part="search"]');
    this.order = root.querySelector('[data-part="order"]');
    this.count = root.querySelector('[data-part="count"]');
    this.items = root.querySelector('[data-part="items"]');
    const best = DATA.views[0].agreement, at = DATA.views[0].best;
    this.entries = DATA.sentences.map((sentence, i) => this.#entry(sentence, i, best?.[i]?.[at]));
    this.search.addEventListener("input", () => this.fill());
    this.order.addEventListener("change", () => this.fill());
    this.items.addEventListener("keydown", (event) => this.#walk(event));
    this.fill();
    this.choose(this.entries[0]);
  }

  #entry({ number, source, target, surprise }, place, agreement) {
    const text = textOf(source), facts = [`#${number}`];
    if (agreement != null) facts.push(`A ${agreement.toFixed(2)}`);
    facts.push(`${surprise.toFixed(2)} bits`);
    const button = make("button", { type: "button", role: "option" },
      make("span", { className: "text", dir: "auto" }, text.slice(0, LONGEST)), make("small", {}, facts.join(" · ")));
    const entry = { number, place, agreement, surprise, button, words: `#${number} ${text} ${textOf(target)}`.toLocaleLowerCase() };
    button.addEventListener("click", () => this.choose(entry));
    return entry;
  }

  /** The entries that the search leaves, in order. */
  fill() {
    const sought = this.search.value.trim().toLocaleLowerCase();
    this.shown = this.entries.filter((entry) => entry.words.includes(sought)).sort(ORDERS[this.order.value]);
    this.items.replaceChildren(...this.shown.map((entry) => entry.button));
    this.count.textContent = `${this.shown.length} of ${this.entries.length}`;
    this.#reachable();
  }

  choose(entry) {
    this.chosen = entry;
    for (const { button } of this.entries) button.ariaSelected = String(button === entry.button);
    this.#reachable();
    this.viewer.choose(entry.place);
  }

  /** Tab leads to one entry of the list, the chosen one if it is there. */
  #reachable() {
    const first = this.shown.includes(this.chosen) ? this.chosen : this.shown[0];
    for (const entry of this.entries) entry.button.tabIndex = entry === first ? 0 : -1;
  }

  #walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const last = this.shown.length - 1, here = this.shown.findIndex(({ button }) => button === document.activeElement);
    const next = { Home: 0, End: last }[event.key] ?? (step ? Math.min(Math.max(here + step, 0), last) : undefined);
    if (next === undefined || here < 0) return;
    event.preventDefault();
    this.choose(this.shown[next]);
    this.shown[next].button.focus();
  }
}
