"""Bag-of-words logistic regression (Appendix A.10): the proxy of a classifier, fitted to its optimum.

    p(y = 1) = σ(1/L Σ_l w[x_l] + b);   β[l] = σ((2y - 1) w[x_l])

It has no attention: its alpha is β as a share of its row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ktiwprobe import Batch, Corpus, Split, option
from ktiwprobe.errors import CorpusError
from ktiwprobe.models.scoring import nll_of_log_odds
from ktiwprobe_paper.ibm1 import Table, bags, training_split

SWEEP = tuple(10 ** (half / 2) for half in range(-10, 9))  # C, the inverse of the L2 penalty: 1e-5 to 1e4
MOST_ITERATIONS = 10_000  # a hundred times scikit-learn's own, which the weakest penalties need


class LogisticRegression:
    """A weight for each word; of several penalties, the one that does best on the validation split."""

    default_task: ClassVar[str] = "toy-sentiment"

    @dataclass(frozen=True)
    class Options:
        """What to train on."""

        samples: int = option(2000, low=1, help="sentences to train on, where the task is an endless stream")

    def __init__(self, words: int, options: Options) -> None:
        self.options = options
        self.weights = torch.zeros(words, dtype=torch.float64)
        self.bias = torch.zeros((), dtype=torch.float64)
        self.C = torch.ones((), dtype=torch.float64)

    @classmethod
    def build(cls, corpus: Corpus, options: Options) -> LogisticRegression:
        """A model that knows nothing yet."""
        if corpus.kind != "classification" or corpus.target_size != 2:
            raise CorpusError(
                f"task {corpus.task} is {corpus.kind} with {corpus.target_size} outputs, and logistic-regression needs "
                "classification with 2: use bow-proxy"
            )
        return cls(corpus.source_size, options)

    def fit(self, corpus: Corpus, save: Callable[[int], None]) -> None:
        """Sweep the penalty from the strongest on; a weaker one must do better on the validation split to be kept."""
        train, validation = training_split(corpus, self.options.samples), corpus.split("validation")
        seen, y = _shares(train, len(self.weights)), train.y.values
        held_out, truth = _shares(validation, len(self.weights)), validation.y.values
        if len(np.unique(y)) < 2:
            raise CorpusError(f"all training examples of task {corpus.task} have one label: both are needed")
        most = -1
        for C in SWEEP:
            fitted = _fitted(seen, y, C)
            right = int((fitted.predict(held_out) == truth).sum())
            if right > most:
                most = right
                self.weights, self.bias = torch.tensor(fitted.coef_[0]), torch.tensor(fitted.intercept_[0])
                self.C = torch.tensor(C, dtype=torch.float64)
        save(0)

    def state(self) -> dict[str, Tensor]:
        """The weights, the bias, and the C they were found with."""
        return {"weights": self.weights, "bias": self.bias, "C": self.C}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state`."""
        self.weights, self.bias, self.C = (state[name].cpu() for name in ("weights", "bias", "C"))

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Labels predicted right, labels in all, and the sum of their -log p."""
        votes = self._votes(batch).masked_fill(~batch.x_mask, 0)
        score = votes.sum(1, keepdim=True) / batch.x_mask.sum(1, keepdim=True) + self.bias.item()  # (B, 1)
        right = (score > 0) == (batch.y == 1)
        return right.sum(), batch.y_mask.sum(), nll_of_log_odds(score * (2 * batch.y - 1)).sum()

    def beta(self, batch: Batch) -> Tensor:
        """Log-odds of the label by one word alone: (2y - 1) w[x_l]. (B, 1, L)"""
        return (self._votes(batch) * (2 * batch.y - 1)).unsqueeze(1)

    def _votes(self, batch: Batch) -> Tensor:
        """The weight of each word. (B, L)"""
        return self.weights.to(batch.x.device)[batch.x]


def _shares(split: Split, size: int) -> Table:
    """How often each word occurs in each sentence, as a share of its length. (sentences, size)"""
    counts = bags(split.x, size)
    counts.data /= np.repeat(split.x.lengths, split.x.lengths)
    counts.sum_duplicates()
    return counts


def _fitted(x: Table, y: Any, C: float) -> Any:
    from sklearn.exceptions import ConvergenceWarning  # slow to import, and not needed to probe a run
    from sklearn.linear_model import LogisticRegression as Fitter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is judged by its accuracy, as every other of the sweep
        return Fitter(C=C, max_iter=MOST_ITERATIONS).fit(x, y)
