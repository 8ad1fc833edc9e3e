"""Draw the packages of the core and which imports which, from the code: python -m benchmarks.map [FILE]"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from pathlib import Path

import grimp
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOT = Path(__file__).parents[1]
PLUGINS = ("ktiwprobe_paper", "ktiwprobe_transformers")
EDGE = 1.1  # half the width of a box


def layers() -> list[str]:
    """The packages of the core from top to bottom, as the contract in pyproject.toml orders them."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    return [name for name in tools["importlinter"]["contracts"][0]["layers"] if "|" not in name]


def imports(names: list[str]) -> Counter[tuple[str, str]]:
    """How many modules of one package import a module of another."""
    graph = grimp.build_graph("ktiwprobe", *PLUGINS, cache_dir=None)
    counts: Counter[tuple[str, str]] = Counter()
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            pair = package_of(module), package_of(other)
            if pair[0] != pair[1] and all(name in names for name in pair):
                counts[pair] += 1
    return counts


def package_of(module: str) -> str:
    """The package that a module is shown as: of a plugin the plugin."""
    root, _, rest = module.partition(".")
    return root if root in PLUGINS else rest.partition(".")[0]


def draw(names: list[str], counts: Counter[tuple[str, str]]) -> Figure:
    """A box for each package, top to bottom, an arc for each import, as thick as there are many; upward ones in red."""
    figure = Figure(figsize=(9, 0.62 * len(names) + 0.8), layout="constrained")
    axis = figure.subplots()
    axis.set_axis_off()
    axis.set_xlim(-5, 5)
    axis.set_ylim(-len(names), 1)
    place = {name: -i for i, name in enumerate(names)}
    for (source, target), count in sorted(counts.items()):
        down = place[source] > place[target]
        side = EDGE + 0.06 if down else -EDGE - 0.06
        look = {"color": "#0072b2" if down else "#d55e00", "alpha": 0.25 + 0.05 * min(count, 12), "zorder": 1}
        ends = ((side, place[source]), (side, place[target]))
        look |= {"connectionstyle": "arc3,rad=-0.5", "arrowstyle": "-|>", "mutation_scale": 9}
        axis.add_patch(FancyArrowPatch(*ends, lw=0.4 + 0.25 * min(count, 16), **look))
    for name in names:
        corner = (-EDGE, place[name] - 0.22)
        look = {"boxstyle": "round,pad=0.04", "facecolor": "#eef3f8", "edgecolor": "#444a52"}
        axis.add_patch(FancyBboxPatch(corner, 2 * EDGE, 0.44, zorder=2, **look))
        axis.text(0, place[name], name, ha="center", va="center", fontsize=11, zorder=3)
    axis.set_title("An arrow runs from a package to one that it imports; thicker for more imports", fontsize=9)
    return figure


def main() -> None:
    """Write the picture and print the pairs that import upwards."""
    names = [*PLUGINS, *layers()]
    counts = imports(names)
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "figures" / "packages.png"
    draw(names, counts).savefig(path, dpi=150)
    place = {name: i for i, name in enumerate(names)}
    upward = [f"{a} -> {b} ({n})" for (a, b), n in sorted(counts.items()) if place[a] > place[b]]
    print(f"wrote {path.name}: {len(names)} packages, {sum(counts.values())} imports; upwards: {upward or 'none'}")


if __name__ == "__main__":
    main()
