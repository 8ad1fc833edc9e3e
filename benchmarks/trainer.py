"""What the trainer adds to a bare loop of forward, backward and step.

lstm-seq2seq as it comes, on toy-translation, batch 16, no evaluation or checkpoint while the clock runs. After every
few steps of the trainer the bare loop takes the same steps, with a twin of the model and batches made beforehand, so
that a busy machine slows both; `ratio` is the median over such pairs and must be at most 1.10. Processor time tells
what of it is the trainer's and what other programs'.
Run: python benchmarks/trainer.py
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ktiwprobe import Batch, build_registry
from ktiwprobe.data import training_batches
from ktiwprobe.files.progress import Progress
from ktiwprobe.runs.recipe import Recipe, make_recipe
from ktiwprobe.training.loop import follow

STEPS, PAIRS = 4, 25
LIMIT = 1.10

Times = NDArray[np.float64]  # (2,): by the clock, and in the processor


def now() -> Times:
    return np.array([time.perf_counter(), time.process_time()])


class Turns(Progress):
    """Takes the time of every `STEPS` steps of the trainer, then lets the bare loop do the same steps."""

    def __init__(self, bare: Callable[[int], None]) -> None:
        self.bare, self.began = bare, now()
        self.pairs: list[tuple[Times, Times]] = []  # of the trainer, of the bare loop

    def advance(self, done: int, loss: object = None) -> None:
        if done % STEPS == 0:
            ended = now()
            self.bare(done - STEPS)
            began, self.began = self.began, now()
            self.pairs.append((ended - began, self.began - ended))


def step(model: Any, optimiser: torch.optim.Optimizer, batch: Batch) -> None:
    optimiser.zero_grad()
    model.loss(batch).backward()
    optimiser.step()


def twin(recipe: Recipe) -> Callable[[int], None]:
    """The bare loop over the `STEPS` steps from a given one, on a model of its own and batches made beforehand."""
    corpus = recipe.corpus()
    model = recipe.fresh_model(corpus, torch.device("cpu")).train()
    optimiser = model.optimiser(model.parameters(), lr=recipe.train_options.lr)
    batch_of = training_batches(corpus, seed=recipe.seed, size=recipe.train_options.batch)
    batches = [batch_of(n) for n in range(STEPS * (PAIRS + 1))]

    def loop(start: int) -> None:
        for batch in batches[start : start + STEPS]:
            step(model, optimiser, batch)

    return loop


def main() -> None:
    values = {"checkpoints": "0", "batch": 16, "steps": STEPS * (PAIRS + 1)}
    recipe = make_recipe(build_registry(), "lstm-seq2seq", "toy-translation", values=values)
    turns = Turns(twin(recipe))
    with tempfile.TemporaryDirectory() as folder:
        follow(recipe, recipe.folder(Path(folder)), resume=False, device="cpu", progress=turns)
    times = np.array(turns.pairs[1:])  # (PAIRS, 2, 2): the first pair warmed both up
    ours, theirs = np.median(times[:, :, 0], 0) / STEPS * 1000
    clock, processor = np.median(times[:, 0] / times[:, 1], 0)
    print(f"trainer {ours:.1f} ms a step, bare loop {theirs:.1f} ms")
    print(f"ratio {clock:.3f} (at most {LIMIT}), in processor time {processor:.3f}")


if __name__ == "__main__":
    main()
