"""How long a row of `reproduce table` takes once everything is trained and extracted, at the size of Multi30k.

Two learned runs, a uniform one and the proxy, 25 checkpoints each, over as many cells as the 1,014 pairs of Multi30k's
validation set have (about 260,000); the models are tiny, for their size does not matter to what is stored. Must be
below 60 seconds. Run: python -m benchmarks.table
"""

import tempfile
import time
from pathlib import Path

from ktiwprobe import Run, build_registry, train
from ktiwprobe.compare.metrics import Agreement, Kendall
from ktiwprobe.experiments import Context
from ktiwprobe.files.progress import SILENT
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.training.engines import make_engine
from ktiwprobe_paper.experiments.comparison import Comparison, How, Runs

LIMIT, STEPS = 60.0, 24
DATA = {"task.words": 20, "task.train": 400, "task.validation": 3600, "task.test": 10, "checkpoints": "every:1"}
TINY = {"hidden": 8, "layers": 1}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:

        def run(model: str, seed: int, attention: str = "learned", **more: int) -> Run:
            about = {"steps": STEPS, "options": {**DATA, **more}, "runs": folder, "device": "cpu"}
            return train(model, "toy-translation", seed=seed, attention=attention, **about)

        learned = [run("lstm-seq2seq", seed, **TINY) for seed in (20, 13)]
        uniform, proxy = run("lstm-seq2seq", 12, "uniform", **TINY), run("bow-proxy", 12, dimension=8)
        runs = Runs(learned, [uniform], [proxy], [], {"lstm-seq2seq": STEPS, "bow-proxy": STEPS})
        registry = build_registry()
        context = Context((), "paper", None, None, Path(folder), registry, make_engine("local"), "cpu", SILENT)
        cells = Extractor(proxy, registry, device="cpu").signal("beta", "best").values.size
        print(f"{len(proxy.steps())} checkpoints, {cells} cells")
        for name, rule in (
            ("extraction and agreement", Agreement()),
            ("agreement", Agreement()),
            ("kendall", Kendall()),
        ):
            began = time.perf_counter()
            Comparison(context, runs, How(rule, "validation", "accuracy", averaged=False)).row()
            print(
                f"{name:<25} {time.perf_counter() - began:.1f} s" + ("" if "and" in name else f" (below {LIMIT:.0f})")
            )


if __name__ == "__main__":
    main()
