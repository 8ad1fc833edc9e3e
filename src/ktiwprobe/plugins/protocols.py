"""The shapes of everything that passes between the core and a plugin; no behaviour. What is optional: capabilities.py.

B is the batch, S the sites (layers x heads), T the outputs, L the inputs, V the output vocabulary. A classifier is a
translator with T = 1 and V = 2, so nothing below knows which of the two it serves.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.corpus.corpus import Corpus

if TYPE_CHECKING:
    from ktiwprobe.claims.experiment import Context, Result

State = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Trace:
    """What a model predicted, and where it looked; one of `logits` and `scores` is needed."""

    logits: Tensor | None  # (B, T, V)
    alpha: (
        Tensor  # (B, T, L) or, with several sites, (B, S, T, L); rows sum to 1 (or less: sinks), zero where not allowed
    )
    scores: Tensor | None = None  # (B, T): log-odds of y, where V is too large to hand over


class Task(Protocol):
    """Something to learn."""

    def load(self, options: Any) -> Corpus:
        """Read or generate the corpus: the same options, the same corpus."""
        ...


@runtime_checkable
class Model(Protocol):
    """Something that was trained and has word knowledge."""

    @classmethod
    def build(cls, corpus: Corpus, options: Any) -> "Model":
        """A fresh model; the random seed is already set."""
        ...

    def state(self) -> State:
        """All that makes the model what it is, by name."""
        ...

    def load_state(self, state: State) -> None:
        """The inverse of `state`."""
        ...

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs predicted right, outputs in all, and the sum of their -log p: three scalars."""
        ...


@runtime_checkable
class AttentionModel(Protocol):
    """A model that can run under an attention one chooses: all that a probe needs."""

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        """Run the model on `batch`.

        `attend`, broadcastable to alpha, replaces the attention weights; None leaves the model's own.
        `gate` (B, L) scales each input embedding; None means ones.
        """
        ...


Probe = Callable[[Any, Batch], Tensor]
"""(model, batch) -> (B, T, L) or (B, S, T, L); what stands where a row may not look is dropped by the caller."""

Metric = Callable[[NDArray[np.floating], NDArray[np.floating]], NDArray[np.float64]]
"""(u, v), each (N, L) -> (N,), or (N, 2) whose columns are summed before dividing; NaN where undefined."""


class Experiment(Protocol):
    """One claim: what to run, and what follows from it."""

    claim: ClassVar[str]  # a sentence, and where the paper says it
    seeds: ClassVar[Sequence[int]]  # at paper scale, unless the user says otherwise
    small_seeds: ClassVar[Sequence[int]]  # at small scale

    def run(self, context: "Context") -> "Result":
        """Train what is needed, measure it, and say what follows."""
        ...
