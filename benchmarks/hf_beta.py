"""beta of a Hugging Face translator against L plain forward passes, the attention replaced by hand in each.

6 + 6 layers, d = 512, V = 8000, T = L = 30, random weights; both on the same batch, one after the other, in one run.
`ratio` is the plain passes' time over ours, the median of the repeats. Run: python -m benchmarks.hf_beta
"""

import resource
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch

from ktiwprobe import Corpus, Split
from ktiwprobe.data import EOS, SPECIALS
from ktiwprobe.models.attend import one_hot
from ktiwprobe.models.scoring import log_odds
from ktiwprobe_transformers.seq2seq import HfSeq2Seq

V, SENTENCES, LENGTH, REPEATS, MEGABYTES = 8000, 4, 30, 3, 512
SITES = {"cross:-1": "at least 3", "cross:0": "all that follows the first layer is run again"}


def make_corpus() -> Corpus:
    rng = np.random.default_rng(0)
    xs = rng.integers(4, V, (SENTENCES, LENGTH)).tolist()
    ys = [[*row, EOS] for row in rng.integers(4, V, (SENTENCES, LENGTH - 1)).tolist()]
    tokens = (*SPECIALS, *(f"w{n}" for n in range(4, V)))
    return Corpus("random", "translation", {"train": Split.of(xs, ys)}, tokens, tokens)


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@torch.no_grad()
def main() -> None:
    torch.manual_seed(0)
    corpus = make_corpus()
    options = HfSeq2Seq.Options(layers=6, hidden=512, heads=8, memory=MEGABYTES)
    model = HfSeq2Seq.build(corpus, options).eval()
    batch = corpus.split("train").batch(np.arange(SENTENCES))
    before = peak_megabytes()
    model.beta(batch)
    memory = peak_megabytes() - before
    print(
        f"{type(model.network).__name__}, 6 + 6 layers, d = 512, V = {V}, {SENTENCES} sentences of {LENGTH} x {LENGTH}"
    )
    for site, wanted in SITES.items():
        model.look_at(site)

        def plain() -> torch.Tensor:
            return torch.stack([log_odds(model.trace(batch, attend=only), batch) for only in one_hot(batch)], -1)

        plain(), model.beta(batch)
        pairs = [(seconds(lambda: model.beta(batch)), seconds(plain)) for _ in range(REPEATS)]
        off = (model.beta(batch) - plain()).abs().max()
        ratio = median(theirs / ours for ours, theirs in pairs)
        print(f"{site:9} ratio {ratio:.1f}  ({wanted}); ours {median(o for o, _ in pairs):.2f} s; off by {off:.0e}")
    print(f"memory    {memory:.0f} MB above the model at the last site (budget {MEGABYTES} MB)")


if __name__ == "__main__":
    main()
