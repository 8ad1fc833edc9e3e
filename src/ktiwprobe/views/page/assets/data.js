/* The page's data, and the values inside it. What the codes mean is written in views/page/pack.py. */

const FINEST = 253, NEVER = 254, NO_PEAK = 0xffff, WHOLE = 0xffff;
const DATA = JSON.parse(document.getElementById("data").textContent);

/** The bytes that a base64 text stands for. */
function bytesOf(text) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/** One probe of one run: the values of any sentence, step and site, decoded when they are asked for. */
class Probe {
  constructor(record, sentences) {
    this.name = record.name;
    this.label = record.label ?? record.symbol;
    this.meaning = record.meaning;
    this.scale = record.scale;
    this.peak = record.peak; // what the marked peaks are
    this.sites = record.sites;
    this.codes = bytesOf(record.codes); // (steps, sites, cells)
    this.ends = new Float32Array(bytesOf(record.ends).buffer); // (steps, sites, rows, 2)
    this.peaks = new Uint16Array(bytesOf(record.peaks).buffer); // (steps, sites and, if several, mean and max, rows)
    this.sinks = record.sinks && new Uint16Array(bytesOf(record.sinks).buffer); // the same
    this.cells = this.rows = 0; // of all sentences
    this.places = sentences.map(({ source, target }) => {
      const place = { cell: this.cells, row: this.rows, T: target.length, L: source.length };
      this.cells += place.T * place.L;
      this.rows += place.T;
      return place;
    });
  }

  /** The T x L values of a sentence; a site is a number, "mean" or "max". NaN: may not be looked at. */
  matrix(sentence, step, site) {
    if (this.sites.length === 1) return this.#one(sentence, step, 0);
    if (typeof site === "number") return this.#one(sentence, step, site);
    const all = this.sites.map((_, i) => this.#one(sentence, step, i));
    const join = site === "max" ? (values) => Math.max(...values) : (values) => values.reduce((a, b) => a + b) / all.length;
    return all[0].map((_, cell) => join(all.map((values) => values[cell])));
  }

  /** The input with the highest value of each row; NO_PEAK where a row says nothing. */
  peaksOf(sentence, step, site) {
    return this.#rowsOf(this.peaks, sentence, step, site);
  }

  /** The share of each row's weight that is on no input; null where none is, or where a sum means nothing. */
  sinksOf(sentence, step, site) {
    if (!this.sinks || (site === "max" && this.sites.length > 1)) return null;
    const shares = Float32Array.from(this.#rowsOf(this.sinks, sentence, step, site), (part) => part / WHOLE);
    return shares.some((share) => share > 0) ? shares : null;
  }

  #rowsOf(array, sentence, step, site) {
    const { row, T } = this.places[sentence], S = this.sites.length, lines = S > 1 ? S + 2 : 1;
    const line = S === 1 ? 0 : site === "mean" ? S : site === "max" ? S + 1 : site;
    const first = (step * lines + line) * this.rows + row;
    return array.subarray(first, first + T);
  }

  #one(sentence, step, site) {
    const { cell, row, T, L } = this.places[sentence], line = step * this.sites.length + site;
    const values = new Float32Array(T * L);
    for (let t = 0; t < T; t++) {
      const [low, high] = this.#endsOf(line, row + t), first = line * this.cells + cell + t * L;
      for (let l = 0; l < L; l++) {
        const code = this.codes[first + l];
        values[t * L + l] = code <= FINEST ? low + (code / FINEST) * (high - low) : code === NEVER ? -Infinity : NaN;
      }
    }
    return values;
  }

  #endsOf(line, row) {
    const at = 2 * (line * this.rows + row);
    return [this.ends[at], this.ends[at + 1]];
  }
}

/** A sentence as people write it: word pieces joined, without the marks at its ends. */
function textOf(tokens) {
  const words = tokens.filter((token) => token !== "<s>" && token !== "</s>");
  return words.some((word) => word.startsWith("▁")) ? words.join("").replaceAll("▁", " ").trim() : words.join(" ");
}

/** A value as people read it; `most` is the largest of its row, beyond 1/1000 of which no digit is true. */
function say(kind, value, most = 1) {
  if (Number.isNaN(value)) return "not seen";
  if (kind === "log-odds") return percent(1 / (1 + Math.exp(-value)));
  if (kind === "weight") return value.toFixed(3);
  if (!Number.isFinite(value)) return "−∞";
  const digits = Math.min(Math.max(2 - Math.floor(Math.log10(most || 1)), 0), 12);
  return (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);
}

/** The same with the log-odds behind a probability. */
function sayAll(kind, value, most) {
  const short = say(kind, value, most), odds = value === -Infinity ? "−∞" : value.toFixed(2).replace("-", "−");
  return kind === "log-odds" && !Number.isNaN(value) ? `${short} (log-odds ${odds})` : short;
}

/** The largest absolute value of some that is finite. */
function largest(values) {
  return values.reduce((most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most), 0);
}

function percent(p) {
  const hundreds = 100 * p;
  if (hundreds > 99.9 && hundreds < 100) return ">99.9 %";
  if (hundreds > 0 && hundreds < 0.1) return hundreds < 0.001 ? "<0.001 %" : `${hundreds.toPrecision(1)} %`;
  return `${hundreds.toFixed(1)} %`;
}

/** An element with properties, and children that are elements or text; text is never read as markup. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}
