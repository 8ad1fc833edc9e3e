"""Which runs belong together, and which of them is which.

The group is the latest run's: those of the same task, model and options. A is its learned run with the lowest seed, B
the next; if a SPEC names a run, the group is that run's and the named run is A.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ktiwprobe.errors import KtiwprobeError, SpecError
from ktiwprobe.plugins.options import as_dict, as_text
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.plugins.run_kinds import RunKind
from ktiwprobe.runs.listing import find_run, find_runs, latest_run
from ktiwprobe.runs.recipe import make_recipe, recipe_of
from ktiwprobe.runs.run import Run

AVERAGED = {"classification": 5}  # other seeds over which ξ is averaged: curves of one output a sentence are rough


class Groups:
    """Finds runs in a folder by what a SPEC says of them."""

    def __init__(self, folder: Path, registry: Registry, *, task: str | None = None, only: Sequence[str] = ()) -> None:
        self.folder, self.registry, self.task, self.only = folder, registry, task, only
        self._group: list[Run] | None = None
        self._named: Run | None = None  # the run that a comparison names
        self._group_of_named: list[Run] | None = None

    def runs(self) -> list[Run]:
        """The runs to look among, the one that decides the group last: those named, else all of the folder."""
        named = dict.fromkeys(find_run(self.folder, name).path for name in self.only)
        return [Run.open(path) for path in reversed(named)] if named else find_runs(self.folder)

    def group(self) -> list[Run]:
        """The runs that belong together: the latest run's task, model and options, of any seed and attention."""
        if self._group_of_named is not None:
            return self._group_of_named
        if self._group is None:
            runs = [run for run in self.runs() if self.task in (None, run.record.task)]
            if not runs:
                latest_run(self.folder)  # says that there are none at all
                known = sorted({run.record.task for run in self.runs()})
                raise SpecError(
                    f"there are no runs of task {self.task!r} in {self.folder}; there are some of {', '.join(known)}"
                )
            main = [run for run in runs if not self.stands_beside(run)] or runs
            self._group = [run for run in runs if kin(run) == kin(main[-1])]
        return self._group

    def turn_to(self, run: Run) -> None:
        """From now on the group is that run's, not the latest's."""
        self._group = _group_of(run)

    # the kinds of runs that plugins registered

    def kinds_of(self, run: Run) -> list[str]:
        """The suffixes that mean runs like this one."""
        record = run.record
        about = record.model, record.attention, record.options
        return [name for name, kind in self.registry.run_kinds().items() if kind.matches(*about)]

    def stands_beside(self, run: Run) -> bool:
        """Whether the run is of a kind with a model of its own, which belongs to no group."""
        kinds = self.registry.run_kinds()
        return any(kinds[name].stands_beside for name in self.kinds_of(run))

    def of_kind(self, name: str) -> list[Run]:
        """The runs of a kind: of the group, or on its task where the kind has a model or options of its own."""
        kind = self.registry.run_kinds()[name]
        among = self.group() if not (kind.model or kind.options) else self._on_the_task()
        alike = [run for run in among if kind.model or run.record.model == self.group()[0].record.model]
        return sorted((run for run in alike if name in self.kinds_of(run)), key=lambda run: run.seed)

    def beside(self) -> dict[str, Run]:
        """The run with the lowest seed of each kind that stands beside the group, by suffix."""
        kinds = [name for name, kind in self.registry.run_kinds().items() if kind.stands_beside]
        runs = {name: self.of_kind(name) for name in kinds}
        mine = {run.path for run in self.group()}
        return {name: of[0] for name, of in runs.items() if of and of[0].path not in mine}

    def _on_the_task(self) -> list[Run]:
        """All runs on the group's task."""
        folder = self.group()[0].path.parent
        return [run for run in self.runs() if run.path.parent == folder]

    # which of the group is which

    def learned(self) -> list[Run]:
        """The group's learned runs, lowest seed first."""
        runs = sorted((r for r in self.group() if r.attention == "learned"), key=lambda r: r.seed)
        if not runs:
            raise SpecError(f"no learned run of {self.described()}: train one with `{self.command()}`")
        return runs

    def first(self) -> Run:
        """A: the group's learned run with the lowest seed, or the learned run that one side names."""
        return self._turn()[0]

    def hats(self) -> list[Run]:
        """B, C, ...: the learned runs after A by seed, then those before it."""
        return self._turn()[1:]

    def main(self) -> Run:
        """The run that is shown where none is named: A or, where no run has learned attention, the lowest seed."""
        learned = [run for run in self.group() if run.attention == "learned"]
        return min(learned or self.group(), key=lambda run: run.seed)

    def others(self) -> list[Run]:
        """The runs whose attention ξ compares with A's: B, or on corpora of some kinds the mean of several."""
        return self.hats()[: AVERAGED.get(self.first().record.kind, 1)]

    def _turn(self) -> list[Run]:
        """The learned runs with A first."""
        learned = self.learned()
        named = self._named and self._named.path.resolve()
        at = next((i for i, run in enumerate(learned) if run.path.resolve() == named), 0)
        return learned[at:] + learned[:at]

    def name_runs(self, runs: Sequence[Run]) -> None:
        """Take the first of the runs that a comparison names as A; if it names only that one, take its group too."""
        self._group_of_named = None
        self._named = runs[0] if runs else None
        here = {run.path.resolve() for run in runs}
        if len(here) != 1 or self.stands_beside(runs[0]):
            return
        mine = next((run for run in self.runs() if run.path.resolve() in here), None)
        kind = None if mine is None else kin(mine)
        self._group_of_named = [run for run in self.runs() if kin(run) == kind] if mine else _group_of(runs[0])

    def described(self) -> str:
        """The group's model and task."""
        record = self.group()[-1].record
        return f"{record.model} on {record.task}"

    def command(self, kind: RunKind | None = None, *, seed: bool = False) -> str:
        """What trains another run of the group, or one of a `kind`."""
        record = self.group()[-1].record
        if self.group()[-1].recorded:
            return f"your own loop and ktiwprobe.Recorder, as the others of {record.task}"
        kind = kind or RunKind("")
        another = f" --seed {max(r.seed for r in self.group()) + 1}" if seed else ""
        attention = f" --attention {kind.attention}" if kind.attention else ""
        spaces = ("task",) if kind.model else ("task", "model", "train")
        options = "".join(f" -o {key}={as_text(value)}" for key, value in kind.options.items())
        model = f"{kind.model or record.model} --task {record.task}"
        return f"ktiwprobe train {model}{another}{self._options(*spaces)}{options}{attention}"

    def _options(self, *spaces: str) -> str:
        """The options that make the group what it is, as one writes them."""
        try:
            mine = recipe_of(self.group()[-1], self.registry)
            usual = make_recipe(self.registry, mine.model, mine.task)
        except KtiwprobeError:  # without its plugin the advice can only be shorter
            return ""
        chosen: dict[str, object] = {}
        for space in spaces:
            here, there = (as_dict(getattr(recipe, f"{space}_options")) for recipe in (mine, usual))
            chosen |= {f"{space}.{key}": value for key, value in here.items() if value != there[key]}
        return "".join(
            f" -o {key}={as_text(value)}" for key, value in chosen.items() if key not in ("train.steps", "train.epochs")
        )


def _group_of(run: Run) -> list[Run]:
    return [other for other in find_runs(run.path.resolve().parent.parent) if kin(other) == kin(run)]


def kin(run: Run) -> tuple[str, str, str]:
    """Equal for runs that differ only in seed, attention and length."""
    return run.path.parent.name, run.record.model, run.record.identity[1]
