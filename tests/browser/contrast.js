// Every visible text whose contrast with what is behind it is below what WCAG AA asks for: 4.5, or 3 for large text.
const parse = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
const channel = (c) => ((c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const behind = (element) => {
  for (let node = element; node; node = node.parentElement) {
    const colour = getComputedStyle(node).backgroundColor, [r, g, b, a = 1] = parse(colour);
    if (colour.startsWith("rgb") && a === 1) return [r, g, b];
  }
  return [255, 255, 255];
};
const poor = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement, look = getComputedStyle(element);
  if (!walker.currentNode.textContent.trim() || !element.checkVisibility() || element.closest("script, .skip")) continue;
  const svg = element.closest("svg"), [a, b] = [parse(svg ? look.fill : look.color), behind(element)].map(luminance);
  const size = parseFloat(look.fontSize), large = size >= 24 || (size >= 18.66 && look.fontWeight >= 700);
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < (large ? 3 : 4.5)) poor.push([walker.currentNode.textContent.slice(0, 30), element.className?.baseVal ?? element.className, contrast.toFixed(2)]);
}
return poor;
