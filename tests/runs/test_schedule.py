"""Schedules: the published ones, and that a longer run keeps the points it had."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktiwprobe import build_registry
from ktiwprobe.errors import OptionError
from ktiwprobe.runs.schedule import steps_of

NAMED = build_registry().schedules()
SCHEDULES = ("log", "paper-translation", "paper-classification", "every:7", "every:1", "0,10,100", "5", "100,0")


@pytest.mark.parametrize(
    ("schedule", "last", "steps"),
    [
        ("paper-translation", 5000, [0, 50, 100, 500, 1000, 1500, 2000, 4000, 5000]),
        ("paper-classification", 1000, [0, 10, 50, 100, 150, 200, 250, 500, 750, 1000]),
        ("log", 1000, [0, 4, 6, 10, 16, 25, 40, 63, 100, 160, 250, 400, 630, 1000]),
        ("every:3", 7, [0, 3, 6, 7]),
        ("every:10", 0, [0]),
        ("100,0,10", 50, [0, 10, 50]),
        (" 5 , 6 ", 10, [5, 6, 10]),
        ("0", 30, [0, 30]),
    ],
)
def test_schedules_as_written(schedule: str, last: int, steps: list[int]) -> None:
    """The published schedules, and each way to write one's own; the final state always."""
    assert sorted(steps_of(schedule, last, named=NAMED)) == steps


@pytest.mark.parametrize(
    ("epoch", "last", "steps"), [(5, 15, [0, 5, 10, 15]), (5, 12, [0, 5, 10, 12]), (5, 0, [0]), (1, 2, [0, 1, 2])]
)
def test_epochs_are_the_ends_of_epochs(epoch: int, last: int, steps: list[int]) -> None:
    """The beginning and every epoch's end, of epochs of so many steps."""
    assert sorted(steps_of("epochs", last, epoch=epoch)) == steps


def test_epochs_of_unknown_length_are_a_sentence() -> None:
    """Where nobody can say how long an epoch is, there is another way to write it."""
    with pytest.raises(
        OptionError, match=r"'epochs' needs a finite training split.*write every:N, as in checkpoints=every:10"
    ):
        steps_of("epochs", 100)


def test_the_length_of_an_epoch_changes_no_other_schedule() -> None:
    """Only `epochs` depends on it."""
    for schedule in SCHEDULES:
        assert steps_of(schedule, 500, epoch=3, named=NAMED) == steps_of(schedule, 500, named=NAMED)


@given(st.sampled_from((*SCHEDULES, "epochs")), st.integers(0, 20000), st.integers(0, 20000))
def test_extending_a_run_adds_points_and_moves_none(schedule: str, short: int, more: int) -> None:
    """The points of a short run, but for its end, are those of a longer one up to there."""
    long = short + more
    before, after = (steps_of(schedule, last, epoch=11, named=NAMED) for last in (short, long))
    assert before - {short} == {step for step in after if step < short}
    assert short in before and long in after
    assert max(after) == long


@pytest.mark.parametrize("schedule", ["", "often", "every:", "every:0", "every:-1", "every:1.5", "1,,2", "-1", "²"])
def test_what_is_not_a_schedule_is_answered_with_what_is(schedule: str) -> None:
    """The sentence shows how to write one."""
    with pytest.raises(OptionError, match=r"is not one: write log, paper-translation, .*epochs, every:N or 0,10,100"):
        steps_of(schedule, 100, named=NAMED)
