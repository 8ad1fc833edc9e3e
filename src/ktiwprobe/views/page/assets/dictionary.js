/* The dictionary: every input word with the outputs it stands for, one column a run. */

const FIRST_WORDS = 40;

class Dictionary {
  constructor(root) {
    const { columns, words } = DATA.dictionary;
    [this.words, this.all] = [words, false];
    this.search = root.querySelector('[data-part="word"]');
    this.order = root.querySelector('[data-part="word-order"]');
    this.more = root.querySelector('[data-part="more"]');
    this.body = make("tbody", {});
    const heads = columns.map(({ model, attention, run }) =>
      make("th", { scope: "col", title: run }, attention === "learned" ? model : `${model}, ${attention}`));
    const head = make("tr", {}, make("th", { scope: "col" }, "input"), make("th", { scope: "col", className: "number" }, "times"), ...heads);
    root.querySelector('[data-part="words"]').replaceChildren(make("table", {}, make("thead", {}, head), this.body));
    this.search.addEventListener("input", () => this.fill());
    this.order.addEventListener("change", () => this.fill());
    this.more.addEventListener("click", () => {
      this.all = true;
      this.fill();
    });
    this.fill();
  }

  /** The lines that the search leaves, the first of them until more are asked for. */
  fill() {
    const sought = this.search.value.trim().toLocaleLowerCase();
    const told = ({ word, said }) => [word, ...said.flat().map(([output]) => output)].some((text) => text.toLocaleLowerCase().includes(sought));
    const best = ({ said }) => said[0]?.[0]?.[2] ?? -1;
    const orders = { count: (a, b) => b.count - a.count, lift: (a, b) => best(b) - best(a), word: (a, b) => a.word.localeCompare(b.word) };
    const found = this.words.filter(told).sort(orders[this.order.value]);
    const shown = this.all ? found : found.slice(0, FIRST_WORDS);
    this.body.replaceChildren(...shown.map((entry) => this.#line(entry)));
    this.more.hidden = shown.length === found.length;
    this.more.textContent = `Show all ${found.length}`;
  }

  #line({ word, count, said }) {
    const cells = said.map((outputs) => make("td", {}, ...(outputs.length ? outputs.flatMap((output, i) => this.#output(output, i)) : ["–"])));
    return make("tr", {}, make("th", { scope: "row", dir: "auto" }, word), make("td", { className: "number" }, String(count)), ...cells);
  }

  /** An output with p and lift. */
  #output([output, p, lift], rank) {
    const numbers = ` ${percent(p)} ×${lift.toFixed(lift >= 10 ? 0 : 1)}`;
    return [make("span", { className: rank ? "output" : "output first" }, make("bdi", {}, output), make("small", {}, numbers)), " "];
  }
}
