"""Quantity: what the values of a probe are, as plain data that a probe carries and everything else reads.

A probe declares it where it is defined:

    @quantity(symbol="κ", meaning="curvature of the output's log-probability", scale="signed", pooling=("sum", "mean"))
    def kappa(model, batch): ...

Tables, terminal, figures, page, SPECs and checks know no probe by name: they ask for the quantity of a signal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from ktiwprobe.errors import ContractError
from ktiwprobe.plugins.capabilities import declared_pooling, declared_quantity, uses_of

F = TypeVar("F", bound=Callable[..., Any])
Role = Literal["attention", "knowledge", "saliency", ""]
Scale = Literal["weight", "log-odds", "signed"]
Pool = Literal["sum", "mean", "max", "joint"]
Argument = Literal["attend", "gate"]


class Line(NamedTuple):
    """How the curve of a quantity is drawn, on a light and on a dark background."""

    light: str
    dark: str
    dash: tuple[int, ...] = ()  # on and off in points; empty for a line without gaps


@dataclass(frozen=True)
class Quantity:
    """What the values of a probe are.

    `role` says what they tell: where the model looks (`attention`), what it makes of single inputs (`knowledge`), which
    inputs move its output (`saliency`). Probes with a role are extracted, shown and compared by default, each with
    those of the other roles; one without a role only where it is asked for.

    `scale` is `weight` (shares of a row, 0 to 1), `log-odds` (of the output; an even chance is 0) or `signed` (shown as
    a share of the largest of its row). `pooling` says how the pieces of an input word, and then those of an output
    word, become one number. `uses` are the arguments of `trace` that the probe relies on; the model is checked for
    these before its first number. `step_of_hat` is the step that the suffix -hat, another seed, stands for: `best`, its
    most accurate checkpoint, or `max`, the one that agrees best.
    """

    symbol: str
    meaning: str
    scale: Scale = "signed"
    role: Role = ""
    pooling: tuple[Pool, Pool] = ("max", "mean")
    line: Line | None = None
    uses: tuple[Argument, ...] = ("attend", "gate")
    step_of_hat: Literal["best", "max"] = "best"
    latex: str = ""  # the symbol in mathematical mode; empty: the symbol as text
    needs_attention: bool = True  # whether it is undefined for models without attention

    def __post_init__(self) -> None:
        for name, value, legal in (
            ("scale", (self.scale,), ("weight", "log-odds", "signed")),
            ("role", (self.role,), ("attention", "knowledge", "saliency", "")),
            ("pooling", self.pooling, ("sum", "mean", "max", "joint")),
            ("uses", self.uses, ("attend", "gate")),
            ("step_of_hat", (self.step_of_hat,), ("best", "max")),
        ):
            if not isinstance(value, tuple) or not set(value) <= set(legal) or (name == "pooling" and len(value) != 2):
                number = " two of" if name == "pooling" else ""
                raise ContractError(
                    f"{name} of {self.symbol!r} is {value!r}: it must be{number} {', '.join(filter(None, legal))}"
                )

    @property
    def is_weight(self) -> bool:
        """Whether values are shares of a row."""
        return self.scale == "weight"

    @property
    def is_log_odds(self) -> bool:
        """Whether values are log-odds of the output."""
        return self.scale == "log-odds"

    @property
    def forces(self) -> bool:
        """Whether the probe runs the model under an attention of its own choice."""
        return "attend" in self.uses


ROLES: tuple[Role, ...] = ("attention", "knowledge", "saliency")
GOLD = Quantity("gold", "known alignment", "weight", pooling=("max", "max"), line=Line("#111111", "#ffffff"), uses=())

UNKNOWN = Quantity("signal", "values of unknown origin")


def quantity(symbol: str, meaning: str, **rest: Any) -> Callable[[F], F]:
    """Declare what a probe's values are; `rest` are the other fields of Quantity."""
    declared = Quantity(symbol, meaning, **rest)

    def declare(probe: F) -> F:
        probe.quantity = declared  # type: ignore[attr-defined]
        return probe

    return declare


def quantity_of(probe: Any, name: str) -> Quantity:
    """The quantity that the probe registered as `name` carries; one that declares none is called by its name."""
    declared = declared_quantity(probe)
    if declared is not None:
        return declared
    pooling: Any = declared_pooling(probe)
    uses: Any = uses_of(probe)
    return Quantity(name, "values of this probe", pooling=tuple(pooling), uses=tuple(uses))
