"""NeuralModel and TorchModel: the optional base classes of neural models, without attention and with it.

NeuralModel brings optimiser and state; its author writes `build`, `loss`, `evaluate` and `beta`. TorchModel brings loss
and evaluation too; its author writes `build` and `trace`. All of it may be overridden, none of it has to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.corpus.corpus import Corpus
from ktiwprobe.errors import ContractError
from ktiwprobe.models.scoring import neg_log_p, score
from ktiwprobe.plugins.options import NoOptions
from ktiwprobe.plugins.protocols import State, Trace


class NeuralModel(nn.Module):
    """A neural model, trained by gradient steps. Train mode means dropout on; the core switches it.

    It has no `trace`, for by that the core knows a model with attention.
    """

    Options: ClassVar[type] = NoOptions
    training_defaults: ClassVar[Mapping[str, Any]] = {}  # train options that suit this model
    own_schedule: ClassVar[bool] = False  # whether these win over what a task suggests for models in general
    default_task: ClassVar[str | None] = None  # where the user names no task; None: the plugins' default
    best_by: ClassVar[str] = "accuracy"  # which checkpoint is the best: or by the lowest loss or perplexity

    @classmethod
    def build(cls, corpus: Corpus, options: Any) -> NeuralModel:
        """A fresh model for `corpus`; the random seed is already set."""
        raise NotImplementedError(f"{cls.__name__} needs build(corpus, options)")

    def optimiser(self, parameters: Iterable[nn.Parameter], *, lr: float) -> torch.optim.Optimizer:
        """Adam, as in the paper."""
        return torch.optim.Adam(parameters, lr=lr, fused=True)

    def state(self) -> State:
        """All weights and buffers, by name."""
        return self.state_dict()

    def load_state(self, state: State) -> None:
        """The inverse of `state`."""
        try:
            self.load_state_dict(dict(state))
        except RuntimeError as error:
            what = " ".join(str(error).split())
            raise ContractError(f"the saved weights do not fit {type(self).__name__} as it is now: {what}") from error


class TorchModel(NeuralModel):
    """A neural model with attention."""

    sites: tuple[str, ...] = ()  # names of the S sites, where alpha has them

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        """Run on `batch` under the attention `attend`, source embeddings scaled by `gate`."""
        raise NotImplementedError(f"{type(self).__name__} needs trace(batch, attend=, gate=)")

    def loss(self, batch: Batch, *, attend: Tensor | None = None) -> Tensor:
        """Mean -log p over the real outputs: what training minimises."""
        return neg_log_p(self._traced(batch, attend), batch).sum() / batch.y_mask.sum()

    def evaluate(self, batch: Batch, *, attend: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs predicted right, outputs in all, and the sum of their -log p: three scalars on the device."""
        trace = self._traced(batch, attend)
        if trace.logits is None:
            raise ContractError(
                f"{type(self).__name__} returns scores without logits, so it must bring its own evaluate"
            )
        return score(trace, batch)

    def _traced(self, batch: Batch, attend: Tensor | None) -> Trace:
        trace = self.trace(batch, attend=attend)
        if trace.logits is None and trace.scores is None:
            raise ContractError(f"{type(self).__name__}.trace must return logits or scores")
        return trace
