"""What experiments must hold to. Running one trains, so that is done only if it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ktiwprobe.claims.experiment import Report, Result, reproduce
from ktiwprobe.claims.writeup import FORMATS, show_report, write_report
from ktiwprobe.plugins.capabilities import missing, seeds_by_task, taken_by
from ktiwprobe.plugins.options import options_of
from ktiwprobe.plugins.protocols import Experiment
from ktiwprobe.plugins.registry import Entry, Owner, Registry, build_registry
from ktiwprobe.testing.models import options_are_frozen
from ktiwprobe.testing.outcome import Failed, Outcome, Skipped, name_of, raise_failures, run_checks

MARK = "(small scale)"  # what `reproduce` adds to a verdict
TAKEN = ("seeds", "steps", "task")  # what a user may choose of any experiment


@dataclass(eq=False)
class ExperimentCase:
    """An experiment under test, and how it is to be run, if it is."""

    name: str
    experiment: Any
    options: Any
    registry: Registry
    folder: Path
    chosen: Mapping[str, Any] = field(default_factory=dict)

    def required(self, member: str) -> Any:
        """A member that every experiment has; None where this one lacks it."""
        return None if member in missing(self.experiment, Experiment) else getattr(self.experiment, member)

    @cached_property
    def report(self) -> Report:
        """What it gives at small scale."""
        settled = {"scale": "small", "runs": self.folder / "runs", **self.chosen}
        return reproduce(self.name, registry=self.registry, **settled)

    @property
    def result(self) -> Result:
        """What its `run` returned."""
        return self.report.result


def check_experiment(experiment: Any, *, run: bool = False, registry: Registry | None = None, **chosen: Any) -> None:
    """Hold an experiment class (or a registered name) to the contract; `run` runs it too, see `experiment_checks`."""
    raise_failures(
        f"experiment {name_of(experiment)}", experiment_checks(experiment, run=run, registry=registry, **chosen)
    )


def experiment_checks(
    experiment: Any, *, run: bool = False, registry: Registry | None = None, **chosen: Any
) -> Iterator[Outcome]:
    """Each check and what came of it.

    With `run` the experiment is run at small scale, in a temporary folder that is deleted afterwards; `chosen` are
    arguments of `reproduce` (runs, seeds, steps, options ...) that make it shorter, or keep what it trained.
    """
    registry = registry or build_registry()
    if isinstance(experiment, str):
        name, experiment_class = experiment, registry.load("experiments", experiment)
    else:
        name, experiment_class = "experiment-under-test", experiment
        entry = Entry("experiments", name, experiment, Owner("under test"))
        registry = replace(registry, entries={**registry.entries, "experiments": {name: entry}})
    checks = (claim_is_a_sentence, seeds_are_whole_numbers, takes_what_there_is, options_are_frozen)
    results = (verdict_is_told, rows_are_mappings, report_can_be_written)
    with TemporaryDirectory() as folder:
        options = options_of(experiment_class)()
        case = ExperimentCase(name, experiment_class, options, registry, Path(folder), chosen)
        yield from run_checks((*checks, *(results if run else ())), case)


def claim_is_a_sentence(case: ExperimentCase) -> None:
    """claim is a sentence."""
    claim = case.required("claim")
    if not isinstance(claim, str) or len(claim.split()) < 3:
        raise Failed(f"claim is {claim!r}: write the sentence that the experiment tests, and where it is from")


def seeds_are_whole_numbers(case: ExperimentCase) -> None:
    """seeds and small_seeds are sequences of whole numbers, and seeds_of has such by task."""
    of_task = seeds_by_task(case.experiment)
    if not isinstance(of_task, Mapping):
        raise Failed(f"seeds_of is {of_task!r}: write a mapping from a task's name to its seeds")
    named = {name: case.required(name) for name in ("seeds", "small_seeds")}
    for name, seeds in {**named, **{f"seeds_of[{task!r}]": seeds for task, seeds in of_task.items()}}.items():
        listed = isinstance(seeds, Sequence) and not isinstance(seeds, str)
        if not listed or not all(type(seed) is int and seed >= 0 for seed in seeds):
            raise Failed(f"{name} is {seeds!r}: write a sequence of whole numbers, such as range(3)")


def takes_what_there_is(case: ExperimentCase) -> None:
    """takes lists only what a user may choose, and run can be called."""
    takes = taken_by(case.experiment)
    if isinstance(takes, str) or not set(takes) <= set(TAKEN):
        raise Failed(f"takes is {takes!r}: it may list {', '.join(TAKEN)}; all else is a field of Options")
    if not callable(case.required("run")):
        raise Failed("it has no run(context)")


def verdict_is_told(case: ExperimentCase) -> None:
    """run(context) returns a Result with a verdict, and holds is True, False or None."""
    result = case.result
    if result.verdict.removesuffix(MARK).strip() in ("", "None"):
        raise Failed("the verdict is empty: write one sentence that follows from the data")
    if result.holds is not None and type(result.holds) is not bool:
        raise Failed(f"holds is {result.holds!r}: write True, False, or None where the data cannot tell (bool(...))")


def rows_are_mappings(case: ExperimentCase) -> None:
    """table, details and curves are lists of rows by column."""
    for name in ("table", "details", "curves"):
        rows = getattr(case.result, name)
        others = [row for row in rows if not isinstance(row, Mapping)]
        if others:
            raise Failed(f"{name} has the row {others[0]!r}: write a row as a mapping from column to value")
    if not case.result.table:
        raise Skipped("the table is empty")


def report_can_be_written(case: ExperimentCase) -> None:
    """The report can be printed in every format and written with its figures."""
    for form in FORMATS:
        show_report(case.report, form)
    write_report(case.report, case.folder / "results")
