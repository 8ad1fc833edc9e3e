"""Optional members of what a plugin brings, and the only place that asks whether one is there.

A method is a Protocol of its own, a value is a `Value` with a default. What each says of itself (what it gives the user
and when the core uses it) stands in the tables of docs/plugins.md, which `make members` writes. This module imports no
torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeGuard, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from ktiwprobe.corpus.batch import Batch
    from ktiwprobe.corpus.corpus import Corpus
    from ktiwprobe.corpus.needs import DataNeeds
    from ktiwprobe.plugins.protocols import State, Trace
    from ktiwprobe.plugins.quantities import Quantity

C = TypeVar("C")
T = TypeVar("T")


def supports(thing: object, capability: type[C]) -> TypeGuard[C]:
    """Whether `thing` has every member of the Protocol `capability`.

    Works for an instance, for a class, and for a wrapper that delegates by `__getattr__`, which isinstance overlooks
    from Python 3.12 on.
    """
    return not missing(thing, capability)


def missing(thing: object, capability: type) -> list[str]:
    """The members of the Protocol `capability` that `thing` does not have."""
    return [member for member in members(capability) if not hasattr(thing, member)]


def members(capability: type) -> tuple[str, ...]:
    """The names of a Protocol's members, those of its bases first."""
    protocols = [cls for cls in reversed(capability.__mro__) if getattr(cls, "_is_protocol", False)]
    names = [name for cls in protocols for name in (*get_annotations(cls), *vars(cls))]
    return tuple(dict.fromkeys(name for name in names if not name.startswith("_")))


@dataclass(frozen=True)
class Value(Generic[T]):
    """An optional attribute with a default; called with an instance or a class it returns the value there."""

    name: str
    default: T
    meaning: str
    read: Callable[[Any], T] = lambda value: value  # what is made of an author's value

    def __call__(self, thing: object) -> T:
        """The value of `thing`."""
        return self.read(getattr(thing, self.name, self.default))


def name_of(thing: object) -> str:
    """What messages call a function, a class or an instance: its own name, else that of its class."""
    return str(getattr(thing, "__name__", type(thing).__name__))


# models: where they attend


@runtime_checkable
class HasAllowed(Protocol):
    """Where each row may look, bool (B, T or 1, L), or (B, S, T or 1, L) where sites differ: read for every batch, else
    every real position (`x_mask`).
    """

    def allowed(self, batch: Batch) -> Tensor: ...


@runtime_checkable
class ChecksItself(Protocol):
    """A check of the model's own before its first number and again on longer texts: raises an error of
    `ktiwprobe.errors`; `forcing` is false for alpha.
    """

    def check_faithful(self, batch: Batch, *, forcing: bool) -> None: ...


@runtime_checkable
class ListsSites(Protocol):
    """A record for each site under some options, for `ktiwprobe ls sites`, which builds no model."""

    @classmethod
    def list_sites(cls, options: Any) -> Iterable[Mapping[str, Any]]: ...


sites_of: Value[tuple[str, ...]] = Value(
    "sites", (), "Names of several attentions: alpha is then (B, S, T, L), and users write `alpha[h1]`.", tuple
)
has_sinks: Value[bool] = Value(
    "sinks",
    False,
    "True lets rows of alpha sum to less than 1, the rest being weight on no input (an attention sink); otherwise such "
    "a row is an error.",
)


# models: faster ways to the quantities


@runtime_checkable
class SupportsBeta(Protocol):
    """Log-odds of y_t when only l is attended, (B, T, L): used instead of one pass for each input; a model without
    `trace` needs it.
    """

    def beta(self, batch: Batch) -> Tensor: ...


@runtime_checkable
class SupportsDelta(Protocol):
    """The derivative d log p(y_t) / d gate_l, (B, T, L): used instead of one backward pass for each output."""

    def delta(self, batch: Batch, *, attend: Tensor | None = None) -> Tensor: ...


@runtime_checkable
class SupportsEncode(Protocol):
    """What no attention changes is computed once a batch and given back to `trace` in every pass of beta."""

    def encode(self, batch: Batch, gate: Tensor | None = None) -> Any: ...

    def trace(
        self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None, state: Any = None
    ) -> Trace: ...


@runtime_checkable
class Translates(Protocol):
    """Output ids of each sentence by beam search, for `--performance bleu`."""

    def translate(
        self, batch: Batch, *, beam: int, limit: int, attend: Tensor | None = None
    ) -> Sequence[Sequence[int]]: ...


version_of: Value[int] = Value(
    "version",
    1,
    "Counted up when `beta` or `delta` of the model, or the probe, changes its meaning: signals stored under another "
    "version are computed anew; what a recorded run has of an older version is refused, since it cannot be.",
)
called: Value[str | None] = Value(
    "called", None, "What messages call the model instead of its class, such as the network that it wraps."
)


# models: corpus and training


@runtime_checkable
class Prepares(Protocol):
    """Turns the corpus, when it is loaded, into what the model reads, such as the tokens of its own tokenizer."""

    @classmethod
    def prepare(cls, corpus: Corpus, options: Any) -> Corpus: ...


@runtime_checkable
class HasLoss(Protocol):
    """What a gradient step lowers, a scalar."""

    def loss(self, batch: Batch) -> Tensor: ...


@runtime_checkable
class HasParameters(Protocol):
    """What is trained; also tells device and precision."""

    def parameters(self) -> Iterator[nn.Parameter]: ...


@runtime_checkable
class Trains(HasParameters, HasLoss, Protocol):
    """Training by gradient steps: `loss` is called once a step, `optimiser` when a training begins or goes on, with
    fewer than all parameters under `--attention frozen-beta`.
    """

    def optimiser(self, parameters: Iterable[nn.Parameter], *, lr: float) -> torch.optim.Optimizer: ...


@runtime_checkable
class TrainsUnderAttention(Protocol):
    """Needed for `--attention uniform`: training and evaluation pass the attention on as `attend`."""

    def loss(self, batch: Batch, *, attend: Tensor | None = None) -> Tensor: ...

    def evaluate(self, batch: Batch, *, attend: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]: ...


@runtime_checkable
class HasAttentionParameters(Protocol):
    """What `--attention frozen-beta` trains: only the parameters that say where to look and leave beta as it is."""

    def attention_parameters(self) -> Iterable[nn.Parameter]: ...


@runtime_checkable
class FitsItself(Protocol):
    """Training without gradient steps: called once, calls `save(step)` for each state worth keeping."""

    def fit(self, corpus: Corpus, save: Callable[[int], None]) -> None: ...


@runtime_checkable
class WarmStarts(Protocol):
    """First weights that are not random, such as word vectors: called once, before the first step of a run."""

    def warm_start(self, corpus: Corpus, options: Any) -> None: ...


default_task: Value[str | None] = Value(
    "default_task", None, "The task of `train` and `check` where the user names none."
)
training_defaults: Value[Mapping[str, Any]] = Value(
    "training_defaults", {}, "Train options (steps, epochs, batch, ...) used where the user gives none."
)
has_own_schedule: Value[bool] = Value("own_schedule", False, "True lets its `training_defaults` win over a task's.")
best_by: Value[str] = Value(
    "best_by",
    "accuracy",
    "Measure by which the checkpoint `best` is chosen: highest `accuracy`, lowest `loss` or `perplexity`.",
)


# models: members of every torch module, which others may have too


@runtime_checkable
class Moves(Protocol):
    """Called once when the model is built, with the chosen device."""

    def to(self, device: torch.device) -> Any: ...


@runtime_checkable
class HasTrainMode(Protocol):
    """Training mode (dropout on) before each step."""

    def train(self, mode: bool = True) -> Any: ...


@runtime_checkable
class HasEvalMode(Protocol):
    """Evaluation mode (dropout off) before anything is measured."""

    def eval(self) -> Any: ...


@runtime_checkable
class HasModules(Protocol):
    """Read to put the mode of each part back after something was measured."""

    def modules(self) -> Iterator[nn.Module]: ...


@runtime_checkable
class HasBuffers(Protocol):
    """Restored after the trial step by which `--attention frozen-beta` learns what can be frozen."""

    def buffers(self) -> Iterator[Tensor]: ...


@runtime_checkable
class HasStateDict(Protocol):
    """Stands for `state` where `Recorder` records a model that has none."""

    def state_dict(self) -> Mapping[str, Tensor]: ...


in_training: Value[bool] = Value("training", False, "Read to put the mode back after something was measured.")


# models: required for training, optional for `Recorder`


@runtime_checkable
class HasState(Protocol):
    """All that makes the model what it is, by name: hashed at each step that is recorded."""

    def state(self) -> State: ...


@runtime_checkable
class Evaluates(Protocol):
    """Outputs predicted right, outputs in all, and the sum of their -log p: used instead of scoring the trace."""

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]: ...


# tasks, probes, metrics, experiments


@runtime_checkable
class NeedsData(Protocol):
    """Files that must be on this machine: `ktiwprobe data` shows what is there, what is missing and where to put it."""

    def needs(self) -> DataNeeds: ...


@runtime_checkable
class HasExpectation(Protocol):
    """The exact baseline, the mean over all orders of each row of v, (N,) or (N, 2): else seeded shuffles are used."""

    def expected(self, u: NDArray[np.floating], v: NDArray[np.floating]) -> NDArray[np.float64]: ...


@runtime_checkable
class HasPeaks(Protocol):
    """The values whose highest the metric takes, (N, L), where they are not u's own: read to count ties."""

    def peaks_of(self, u: NDArray[np.floating]) -> NDArray[np.floating]: ...


training_for: Value[Mapping[str, Mapping[str, Any]]] = Value(
    "training_for", {}, "Train options for single models, by name: they win over all `training_defaults`."
)
declared_pooling: Value[tuple[str, str]] = Value(
    "pooling",
    ("max", "mean"),
    "How the pieces of an input word, then of an output word, become one number with `--level word`: each is `sum`, "
    "`mean`, `max` or `joint` (of log-odds).",
)
uses_of: Value[tuple[str, ...]] = Value(
    "uses", ("attend", "gate"), "Arguments of `trace` that the probe relies on: the model is checked for these first."
)
declared_quantity: Value[Quantity | None] = Value(
    "quantity", None, "What its values are, set by the decorator `quantity`; it stands for `pooling` and `uses` too."
)
lower_is_better: Value[bool] = Value(
    "lower_is_better", False, "True for an error rate: `@max` then takes the lowest value, and no ξ is computed."
)
bounds_of: Value[tuple[float, float] | None] = Value(
    "bounds", None, "Lowest and highest value: where all resamples agree, the interval is then Wilson's, not a point."
)
label_of: Value[str | None] = Value("label", None, "Its name in figures, instead of the registered one.")
taken_by: Value[tuple[str, ...]] = Value(
    "takes", ("seeds", "steps"), "Which of `seeds`, `steps` and `task` users may choose."
)
seeds_by_task: Value[Mapping[str, Sequence[int]]] = Value(
    "seeds_of", {}, "The usual seeds for some tasks, by name, where they are not `seeds`."
)
options_class: Value[type | None] = Value("Options", None, "A frozen dataclass of what users may set.")


OF_MODELS = (
    options_class, default_task, training_defaults, has_own_schedule, best_by, sites_of, has_sinks, HasAllowed,
    ChecksItself, ListsSites, SupportsBeta, SupportsDelta, SupportsEncode, Translates, version_of, called, Prepares,
    Trains, TrainsUnderAttention, HasAttentionParameters, FitsItself, WarmStarts,
)  # fmt: skip
OF_TORCH_MODULES = (Moves, HasTrainMode, HasEvalMode, in_training, HasModules, HasParameters, HasBuffers)
OF_RECORDED_MODELS = (HasState, HasStateDict, Evaluates)
OF_TASKS = (options_class, training_defaults, training_for, NeedsData)
OF_PROBES = (declared_quantity, declared_pooling, uses_of, version_of)
OF_METRICS = (HasExpectation, lower_is_better, bounds_of, label_of, HasPeaks)
OF_EXPERIMENTS = (options_class, taken_by, seeds_by_task)
