"""Schedules: the published ones, and that a longer run keeps the points it had."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktiwprobe.errors import OptionError
from ktiwprobe.schedule import steps_of

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
    assert sorted(steps_of(schedule, last)) == steps


@given(st.sampled_from(SCHEDULES), st.integers(0, 20000), st.integers(0, 20000))
def test_extending_a_run_adds_points_and_moves_none(schedule: str, short: int, more: int) -> None:
    """The points of a short run, but for its end, are those of a longer one up to there."""
    long = short + more
    before, after = steps_of(schedule, short), steps_of(schedule, long)
    assert before - {short} == {step for step in after if step < short}
    assert short in before and long in after
    assert max(after) == long


@pytest.mark.parametrize("schedule", ["", "often", "every:", "every:0", "every:-1", "every:1.5", "1,,2", "-1", "²"])
def test_what_is_not_a_schedule_is_answered_with_what_is(schedule: str) -> None:
    """The sentence shows how to write one."""
    with pytest.raises(OptionError, match=r"is not one: write log, paper-translation, .*every:N or 0,10,100"):
        steps_of(schedule, 100)
