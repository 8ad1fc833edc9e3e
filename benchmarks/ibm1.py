"""How much faster ibm1 is than nltk's IBMModel1. Run with OMP_NUM_THREADS=1: python benchmarks/ibm1.py

29,000 generated sentence pairs of about 14 x 14 words, a Zipf vocabulary of 8,000. Ours is the count table and 5
iterations of EM with their perplexities, nltk's is its 5 iterations alone (its constructor, without any, is taken off).
nltk is given fewer pairs, its time scaled up in proportion.
"""

from time import perf_counter

import numpy as np
from nltk.translate import AlignedSent, IBMModel1

from ktiwprobe import Corpus, Split
from ktiwprobe.data import Ragged
from ktiwprobe_paper.ibm1 import Ibm1

PAIRS, SAMPLE, WORDS, ITERATIONS = 29_000, 2_000, 8_000, 5
LEAST = 10


def make_corpus() -> Corpus:
    rng = np.random.default_rng(0)
    frequency = 1 / np.arange(1, WORDS + 1)
    sides = []
    for _ in "xy":
        offsets = np.concatenate([[0], np.cumsum(rng.integers(8, 21, PAIRS))])
        sides.append(Ragged(rng.choice(WORDS, offsets[-1], p=frequency / frequency.sum()), offsets))
    tokens = [f"w{number}" for number in range(WORDS)]
    return Corpus("generated", "translation", {"train": Split(*sides)}, tokens, tokens)


def seconds_of_ours(corpus: Corpus) -> float:
    start = perf_counter()
    Ibm1.build(corpus, Ibm1.Options(iterations=ITERATIONS)).fit(corpus, lambda _: None)
    return perf_counter() - start


def seconds_of_nltk(split: Split) -> float:
    pairs = [AlignedSent(split.y[m].tolist(), split.x[m].tolist()) for m in range(SAMPLE)]
    times = []
    for iterations in (0, ITERATIONS):
        start = perf_counter()
        IBMModel1(pairs, iterations)
        times.append(perf_counter() - start)
    return (times[1] - times[0]) * PAIRS / SAMPLE


def main() -> None:
    corpus = make_corpus()
    ours, theirs = seconds_of_ours(corpus), seconds_of_nltk(corpus.split("train"))
    print(f"ibm1, {PAIRS:,} pairs, C and {ITERATIONS} iterations of EM: {ours:.1f} s")
    print(f"nltk, {ITERATIONS} iterations: {theirs:.1f} s (scaled up from {SAMPLE:,} pairs)")
    print(f"ratio {theirs / ours:.1f} (at least {LEAST})")


if __name__ == "__main__":
    main()
