/* Colours: the scales of views/style.py, which page, terminal and figures share. */

const SHADES = 256;

/** Whether the page is dark now: as the reader chose, else as the system says. */
function isDark() {
  const chosen = document.documentElement.style.colorScheme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function rgb(colour) {
  return [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
}

/** A scale as SHADES colours between its stops. */
function ramp(stops) {
  return Array.from({ length: SHADES }, (_, i) => {
    const place = (i / (SHADES - 1)) * (stops.length - 1), before = Math.min(Math.floor(place), stops.length - 2);
    const [a, b] = [rgb(stops[before]), rgb(stops[before + 1])];
    return a.map((part, k) => Math.round(part + (b[k] - part) * (place - before)));
  });
}

const ramps = {}; // by scale and theme, made when first needed
function rampOf(scale) {
  const theme = isDark() ? "dark" : "light", key = scale + theme;
  return (ramps[key] ??= ramp(DATA.style[scale][theme]));
}

/** The same as pixels: a number for each colour, its bytes in the order of ImageData (all machines that run browsers are little-endian). */
function packedRampOf(scale) {
  const colours = rampOf(scale);
  return (colours.packed ??= Uint32Array.from(colours, ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r));
}

/** How values of a kind (weight, log-odds, signed) become shades: the scale, what its ends mean, and at(value, low, high of its row) -> 0..255.

    Weights and log-odds look the same wherever they stand. Saliencies are a share of the largest of their row, because
    rows differ by orders of magnitude; with `byRow` every probe is a share of its row's range. */
function shading(kind, byRow) {
  if (byRow) return { scale: "weights", ends: ["lowest of its row", "highest"], at: (value, low, high) => shade(value, low, high > low ? high : low + 1) };
  if (kind === "weight") return { scale: "weights", ends: ["0", "1"], at: (value) => shade(value, 0, 1) };
  if (kind === "log-odds") {
    const [low, high] = DATA.style.log_odds;
    return { scale: "signed", ends: [low, high].map((end) => say(kind, end)), at: (value) => signedShade(value, low, high) };
  }
  const most = (low, high) => Math.max(-low, high, 1e-30);
  return { scale: "signed", ends: ["−max", "+max of its row"], at: (value, low, high) => signedShade(value, -most(low, high), most(low, high)) };
}

function shade(value, low, high) {
  return Math.round((SHADES - 1) * Math.min(Math.max((value - low) / (high - low), 0), 1));
}

/** On a signed scale 0 is in the middle, whatever the arms' lengths. */
function signedShade(value, low, high) {
  const share = Math.min(Math.max(value / (value > 0 ? high : -low), -1), 1);
  return Math.round((SHADES - 1) * (0.5 + 0.5 * share));
}

/** Black or white, whichever reads better on a colour (WCAG's relative luminance). */
function inkOn([r, g, b]) {
  const [lr, lg, lb] = [r, g, b].map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * lr + 0.7152 * lg + 0.0722 * lb > 0.179 ? "#000" : "#fff";
}

function css([r, g, b]) {
  return `rgb(${r},${g},${b})`;
}
