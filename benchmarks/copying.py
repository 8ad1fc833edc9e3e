"""Where a step of copying at paper scale goes: `share` in LSTM kernels and matrix products must be at least 0.85.

And the memory of the widest first gradient (d = 16384), which must stay below 4 GB, the process included.
Run: python -m benchmarks.copying
"""

import resource

import torch
from torch.profiler import ProfilerActivity, profile

from ktiwprobe import build_registry
from ktiwprobe.data import training_batches
from ktiwprobe.runs.recipe import make_recipe
from ktiwprobe_paper.experiments.copying import MODEL
from ktiwprobe_paper.experiments.gradient import WIDTHS, errors_at, make_problem

KERNELS = ("linear_pointwise", "rnn", "lstm", "aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")
STEPS = 5
LEAST, MOST = 0.85, 4.0


def kernel_share() -> float:
    """The share of the processor time of training steps that kernels and products take, one thread."""
    torch.set_num_threads(1)
    recipe = make_recipe(build_registry(), "lstm-seq2seq", "copy", values={**MODEL, "vocabulary": 40})
    corpus = recipe.corpus()
    model = recipe.fresh_model(corpus, torch.device("cpu")).train()
    optimiser = model.optimiser(model.parameters(), lr=1e-3)
    batches = training_batches(corpus, seed=0, size=recipe.train_options.batch)

    def step(number: int) -> None:
        optimiser.zero_grad(set_to_none=True)
        model.loss(batches(number)).backward()
        optimiser.step()

    step(0)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        for number in range(STEPS):
            step(number)
    events = seen.key_averages()
    total = sum(event.self_cpu_time_total for event in events)
    return sum(e.self_cpu_time_total for e in events if any(name in e.key for name in KERNELS)) / total


class Context:
    """What `make_problem` asks of an experiment's context."""

    registry, task, small = build_registry(), None, False


def main() -> None:
    share = kernel_share()
    print(f"copying, batch 128 x 41: {share:.3f} of a step in kernels and products (at least {LEAST})")
    errors_at(make_problem(Context), WIDTHS[-1], 0)  # type: ignore[arg-type]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"initial-gradient, d = {WIDTHS[-1]}: {memory:.2f} GB at most, torch included (at most {MOST})")


if __name__ == "__main__":
    main()
