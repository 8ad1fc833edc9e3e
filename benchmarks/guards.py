"""What the checks before a network's first number cost, beside the extraction that they precede.

A classifier of MiniLM's sizes (6 layers, d = 384, 12 heads, V = 30522) with random weights, on texts of 10 to 40 words;
beta is timed on some of them and counted for 1,000. At most 3 % of that time, or half a second if that is more, may go
to the checks. Run: python -m benchmarks.guards
"""

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification

from ktiwprobe import Batch, Split
from ktiwprobe.probes import definitions
from ktiwprobe.probes.checks import check_before
from ktiwprobe_transformers.classifier import HfClassifier

SENTENCES, TIMED, V, REPEATS, SHARE, LEAST = 1000, 50, 30522, 3, 0.03, 0.5


def make_model() -> HfClassifier:
    sizes = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    network = BertForSequenceClassification(BertConfig(vocab_size=V, **sizes))
    return HfClassifier(network, HfClassifier.Options(), V=2).eval().requires_grad_(False)


def make_batches() -> tuple[list[Batch], Batch, Batch]:
    """All of the texts, the eight shortest, and the two longest."""
    rng = np.random.default_rng(0)
    xs = [rng.integers(1000, V, n).tolist() for n in np.sort(rng.integers(10, 41, TIMED))]
    split = Split.of(xs, [[int(n)] for n in rng.integers(0, 2, TIMED)])
    few, longest = split.batch(np.arange(8)), split.batch(np.array([TIMED - 2, TIMED - 1]))
    return [split.batch(rows) for rows in split.by_length()], few, longest


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    torch.manual_seed(0)
    model, (batches, few, longest) = make_model(), make_batches()
    definitions.beta(model, few)
    extraction = median(
        seconds(lambda: [definitions.beta(model, batch) for batch in batches]) for _ in range(REPEATS)
    ) * (SENTENCES / TIMED)
    limit = max(SHARE * extraction, LEAST)
    print(f"beta of {SENTENCES} texts: {extraction:.1f} s")
    for name in ("alpha", "beta", "delta"):
        probe = getattr(definitions, name)
        cost = median(seconds(lambda: check_before(model, few, probe, longest=longest)) for _ in range(REPEATS))  # noqa: B023
        verdict = "" if cost <= limit else "  TOO SLOW"
        print(f"checks before {name:6}{cost:6.2f} s, {100 * cost / extraction:.1f} % (at most {limit:.2f} s){verdict}")


if __name__ == "__main__":
    main()
