"""Δ of lstm-seq2seq, all outputs in one pass back, against its definition, one pass back over the whole graph for each.

Sentences of about 15 x 15, V = 8000, H = 256; both on the same batches, one after the other, in one run. `ratio` is the
definition's time over ours, the median over batches. Run: python -m benchmarks.delta
"""

import resource
import time
from collections.abc import Callable
from statistics import median

import torch
from benchmarks.beta import make_batches

from ktiwprobe.probes.definitions import delta_by_definition
from ktiwprobe_paper.seq2seq import Seq2Seq

V, BATCHES = 8000, 4


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    torch.manual_seed(0)
    model = Seq2Seq(V, V, Seq2Seq.Options()).eval().requires_grad_(False)
    batches = make_batches()
    batches = batches[:: max(1, len(batches) // BATCHES)][:BATCHES]
    model.delta(batches[0])
    before = peak_megabytes()
    ours = [seconds(lambda batch=batch: model.delta(batch)) for batch in batches]
    memory = peak_megabytes() - before
    theirs = [seconds(lambda batch=batch: delta_by_definition(model, batch)) for batch in batches]
    sentences = sum(len(batch.x) for batch in batches)
    print(f"sentences a second     {sentences / sum(ours):.0f}")
    print(f"definition over ours   {median(b / a for a, b in zip(ours, theirs, strict=True)):.1f}  (at least 2)")
    print(f"memory above the model {memory:.0f} MB after the first batch")


if __name__ == "__main__":
    main()
