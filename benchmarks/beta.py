"""How close the closed-form β of lstm-seq2seq comes to the speed of plain matrix products, and what memory it takes.

1,000 sentences of about 15 x 15, V = 8000, H = 256. `ratio` divides the time of β, encoder and all, by the time that
2048 x 2048 products of as many floating-point operations take in the same run, on the same threads; operations counted
are those of the recurrent layers and of the product to V logits. Run: python benchmarks/beta.py
"""

import resource
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
import torch

from ktiwprobe import Batch, Split
from ktiwprobe_paper.seq2seq import Seq2Seq

SENTENCES, V, REPEATS, SIDE, PRODUCTS = 1000, 8000, 3, 2048, 3


def make_batches() -> list[Batch]:
    rng = np.random.default_rng(0)
    xs, ys = ([rng.integers(4, V, n).tolist() for n in rng.integers(10, 21, SENTENCES)] for _ in "xy")
    split = Split.of(xs, ys)
    return [split.batch(rows) for rows in split.by_length()]


def operations(model: Seq2Seq, batches: list[Batch]) -> tuple[float, float]:
    """Floating-point operations of the product to V logits, and of the recurrent layers: real cells and tokens only."""
    sizes = [(batch.x_mask.sum(1), batch.y_mask.sum(1)) for batch in batches]
    cells = sum(int((L * T).sum()) for L, T in sizes)
    reading, writing = (
        sum(w.numel() for w in net.parameters() if w.dim() == 2) for net in (model.encoder, model.decoder)
    )
    tokens = sum(int(L.sum()) * reading + int(T.sum()) * writing for L, T in sizes)
    return 2.0 * cells * model.predict.outer.weight.numel(), 2.0 * tokens


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def interleaved(model: Seq2Seq, batches: list[Batch]) -> tuple[float, float]:
    """Seconds of β over all batches, and of one product; products after each batch, so a busy machine slows both."""
    a, b, c = torch.randn(3, SIDE, SIDE)
    torch.mm(a, b, out=c)
    ours, theirs = 0.0, 0.0
    for batch in batches:
        ours += seconds(partial(model.beta, batch))
        theirs += seconds(lambda: [torch.mm(a, b, out=c) for _ in range(PRODUCTS)])
    return ours, theirs / (PRODUCTS * len(batches))


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    torch.manual_seed(0)
    model, batches = Seq2Seq(V, V, Seq2Seq.Options()).eval(), make_batches()
    before = peak_megabytes()
    model.beta(batches[0])
    of_output, of_recurrence = operations(model, batches)

    betas, gemms, memory = [], [], 0.0
    for _ in range(REPEATS):
        ours, theirs = interleaved(model, batches)
        betas.append(ours)
        gemms.append(theirs * (of_output + of_recurrence) / (2 * SIDE**3))
        memory = memory or peak_megabytes() - before
    ratio = median(ours / theirs for ours, theirs in zip(betas, gemms, strict=True))
    strict = ratio * (1 + of_recurrence / of_output)
    print(f"threads                {torch.get_num_threads()}")
    print(f"seconds                {median(betas):.2f}  ({', '.join(f'{s:.2f}' for s in betas)})")
    print(f"equal products         {median(gemms):.2f}  ({', '.join(f'{s:.2f}' for s in gemms)})")
    print(f"ratio                  {ratio:.2f}  ({strict:.2f} if only the product to V is counted)")
    print(f"memory above the model {memory:.0f} MB")


if __name__ == "__main__":
    main()
