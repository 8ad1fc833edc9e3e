"""check_experiment: what an experiment must have, and what it must return if it is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from here import Here
from ktiwprobe import build_registry
from ktiwprobe.errors import ContractError
from ktiwprobe.experiments import Context, Job, Result
from ktiwprobe.testing import check_experiment, experiment_checks

NAMES = build_registry().names("experiments")


class Good:
    """Trains nothing."""

    claim: Any = "Everything is as it was."
    seeds: Any = range(3)
    small_seeds: Any = (0,)
    returned: ClassVar[Any] = Result("It is.", True, [{"seed": 0, "value": 0.5}])

    def run(self, context: Context) -> Any:
        return self.returned


class Trains(Good):
    """Trains one run of two steps, in this process's worker."""

    takes = ("seeds", "steps")

    def run(self, context: Context) -> Result:
        (run,) = context.train([Job("tiny-model", seed=context.seeds[0], steps=context.steps)])
        return Result("It was trained.", None, [{"steps": run.steps()[-1]}])


class NoSentence(Good):
    claim = "yes"


class SeedsAreText(Good):
    seeds = "0-3"


class SeedsOfATask(Good):
    seeds_of: ClassVar[Any] = {"sst": (0, -1)}


class TakesMore(Good):
    takes = ("seeds", "width")


class NoRun(Good):
    run: Any = None


class Thawed(Good):
    @dataclass
    class Options:
        """Not frozen."""


class NoResult(Good):
    returned = "It is."


class NoVerdict(Good):
    returned = Result(" ", True, [])


class NumberHolds(Good):
    returned = Result("It is.", 1, [])  # type: ignore[arg-type]


class OddRows(Good):
    returned = Result("It is.", True, [("a", 1)])  # type: ignore[list-item]


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_conforms(name: str) -> None:
    """As far as it can be seen without training."""
    check_experiment(name)


def test_a_good_experiment_passes_when_run() -> None:
    """Its report is printed and written, too."""
    check_experiment(Good, run=True)
    assert "The report can be printed in every format and written with its figures" in {
        outcome.name for outcome in experiment_checks(Good, run=True)
    }


def test_an_experiment_can_be_made_shorter(installed_tiny: None, tmp_path: Any) -> None:
    """Arguments of `reproduce` choose seeds and steps, and where the runs are kept."""
    check_experiment(Trains, run=True, seeds=(5,), steps=2, runs=tmp_path, engine=Here(), device="cpu")
    assert [path.name for path in tmp_path.glob("*/*-s5")] == ["tiny-model-s5"]


@pytest.mark.parametrize(
    ("experiment", "advice"),
    [
        (NoSentence, "claim is 'yes': write the sentence"),
        (SeedsAreText, "seeds is '0-3': write a sequence of whole numbers, such as"),
        (SeedsOfATask, r"seeds_of\['sst'\] is \(0, -1\): write a sequence"),
        (TakesMore, r"takes is \('seeds', 'width'\): it may list seeds, steps, task"),
        (NoRun, r"it has no run\(context\)"),
        (Thawed, "decorate Options with"),
        (NoResult, r"run\(context\) returned str, not a ktiwprobe\.experiments\.Result"),
        (NoVerdict, "the verdict is empty"),
        (NumberHolds, "holds is 1: write True, False, or None"),
        (OddRows, r"table has the row \('a', 1\): write a row as a mapping"),
    ],
)
def test_a_wrong_experiment_is_told_what_to_change(experiment: type, advice: str) -> None:
    """Each fault is a sentence."""
    with pytest.raises(ContractError, match=advice):
        check_experiment(experiment, run=True)


def test_nothing_is_run_unless_asked() -> None:
    """What training would show stays unseen."""
    check_experiment(NoResult)
