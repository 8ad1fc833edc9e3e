"""The paper's question on generated data, in about four minutes on two CPU cores: `make demo` runs this.

Trains a translator with two seeds and once under uniform attention, and a classifier; compares attention, word
knowledge and saliency; holds them against the alignment that the generated corpus knows; draws one sentence and the
course of training.
"""

import argparse
import time
from pathlib import Path

from ktiwprobe import agree, build_registry, plots, train
from ktiwprobe.compare.finder import Finder
from ktiwprobe.compare.agreement import add_up
from ktiwprobe.views.progress import make_progress
from ktiwprobe.compare.metrics import Agreement
from ktiwprobe.views.tables import show_agreement

COMPARISONS = [
    ("alpha", "beta", "agreement", None),
    ("alpha", "beta-hat", "agreement", None),
    ("alpha", "beta-uf", "agreement", None),
    ("delta", "beta-uf", "agreement", None),
    ("alpha", "beta-uf", "kendall", None),
    ("alpha", "gold", "aer", None),
    ("beta", "gold", "aer", None),
    ("delta", "beta", "agreement", "toy-sentiment"),
]

LEGEND = """
alpha: attention; beta: what the model says attending to one word only; delta: saliency; -hat: of another seed; -uf:
trained under uniform attention; gold: the known alignment (aer: lower is better). A value near its baseline means
chance. ξ is the accuracy at which another seed's attention agrees with alpha better than this value does, ξ* the
accuracy when trained. In brackets: how each step was chosen (best: most accurate; max: agrees best).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of runs and pictures")
    parser.add_argument("--steps", type=int, help="train for fewer steps, for a quick look")
    parser.add_argument("-o", dest="options", action="append", default=[], metavar="KEY=VALUE", help="for every run")
    arguments = parser.parse_args()
    started = time.monotonic()
    registry = build_registry()
    options = dict(pair.split("=", 1) for pair in arguments.options)
    common = {"registry": registry, "runs": arguments.out / "runs", "progress": make_progress(quiet=False)}
    for model, seed, attention in [
        ("lstm-classifier", 0, "learned"),
        ("lstm-seq2seq", 0, "learned"),
        ("lstm-seq2seq", 1, "learned"),
        ("lstm-seq2seq", 0, "uniform"),
    ]:
        print(f"\n$ ktiwprobe train {model} --seed {seed} --attention {attention}", flush=True)
        run = train(
            model, seed=seed, attention=attention, steps=arguments.steps, options=options, resume=True, **common
        )
        best = run.best_step()
        print(f"best accuracy {run.performance()[best]:.3f} at step {best}", flush=True)

    results = []
    for u, v, metric, task in COMPARISONS:
        results.append(agree(u, v, metric, task=task or "toy-translation", **common))
    print(f"\n{show_agreement(results)}")
    print(LEGEND)
    for path in draw(arguments.out, registry):
        print(f"wrote {path}")
    print(f"{time.monotonic() - started:.0f} s in all. To look further:")
    print(f"$ ktiwprobe report --runs {common['runs']}   # one page for the browser, report.html")
    print(f"$ ktiwprobe show --runs {common['runs']} --sentence 3")


def draw(out: Path, registry) -> list[Path]:
    """One sentence as alpha, beta and delta see it, and agreement over training."""
    finder = Finder(out / "runs", registry, task="toy-translation")
    first, second = finder.learned()[:2]
    here = finder.extractor(first)
    sentence = 3
    example = here.corpus.example("validation", sentence)
    panels = {name: here.signal(name)[sentence] for name in ("alpha", "beta", "delta")}
    picture = plots.heatmaps(panels, example.source, example.target, links=example.links)

    uniform = next(run for run in finder.group() if run.attention == "uniform")
    alpha, rule = here.signal("alpha"), Agreement()
    lines, chance = {}, 0.0
    for label, run, probe in (
        ("A(α, β): its own word knowledge", first, "beta"),
        ("A(α, β̂): another seed's word knowledge", second, "beta"),
        ("A(α, β under uniform attention)", uniform, "beta"),
        ("A(α, α̂): another seed's attention", second, "alpha"),
    ):
        sums = {step: add_up(alpha, finder.extractor(run).signal(probe, step), rule) for step in run.steps()}
        lines[label] = {step: found.value for step, found in sums.items()}
        chance = min(found.baseline for found in sums.values() if found.baseline)
    over_time = plots.curves(
        lines, title="What comes first?", baseline=chance, right={"accuracy": second.performance()}
    )
    return [plots.save(picture, out / "sentence.png"), plots.save(over_time, out / "training.png")]


if __name__ == "__main__":
    main()
