"""RunKind: a suffix of SPECs that picks another kind of run, such as -uf for one trained under uniform attention.

A plugin registers the kinds it brings:

    @hookimpl
    def register_run_kinds(register):
        register("px", RunKind(label="proxy", model="bow-proxy", dash=(2, 2)))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ktiwprobe.plugins.quantities import Role


@dataclass(frozen=True)
class RunKind:
    """A kind of run, by what its record says: its attention, its model, values of its options.

    A kind with a `model` of its own stands beside a group of runs, whatever the group's model and options are: it is
    compared with them, keeps its own measure of the best checkpoint, and is never the run that a bare symbol means. A
    kind without one is of the group's model.
    """

    label: str  # in words, such as "uniform attention"
    attention: str | None = None
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # by key with its space, such as model.output
    dash: tuple[int, ...] = (4, 2, 1, 2)  # of its lines, on and off in points
    superscript: str = ""  # its name as small letters, for tables; empty: the name after a dash
    shows: tuple[Role, ...] = ("knowledge",)  # the roles of its signals that are compared; the report takes the first
    corpora: tuple[str, ...] = ()  # the kinds of corpora on which the report compares it; none: all

    @property
    def stands_beside(self) -> bool:
        """Whether its runs are of a model of its own."""
        return self.model is not None

    def matches(self, model: str, attention: str, options: Mapping[str, Mapping[str, Any]]) -> bool:
        """Whether a run of that model, attention and options (by space, then key) is of this kind."""
        values = {f"{space}.{key}": value for space, of in options.items() for key, value in of.items()}
        return (
            self.attention in (None, attention)
            and self.model in (None, model)
            and all(key in values and values[key] == value for key, value in self.options.items())
        )
