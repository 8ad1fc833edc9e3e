"""At which steps to look: schedules, written as text.

A schedule does not depend on how long the run is, so a run that is extended keeps the points it had.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, count, takewhile

from ktiwprobe.errors import OptionError


def steps_of(schedule: str, last: int, *, epoch: int | None = None) -> set[int]:
    """The steps of `schedule` up to `last`, which is always among them; an epoch has `epoch` steps, None if unknown."""
    return {*takewhile(lambda step: step <= last, _endless(schedule, epoch)), last}


def is_due(schedule: str, step: int, *, epoch: int | None = None) -> bool:
    """Whether `step` is of `schedule`, wherever the training may end."""
    return any(found == step for found in takewhile(lambda found: found <= step, _endless(schedule, epoch)))


def _endless(schedule: str, epoch: int | None) -> Iterable[int]:
    if schedule == "log":
        return _log_spaced()
    if not isinstance(schedule, str):
        raise OptionError(f"schedule {schedule!r} is not text: write it as in '0,10,100' or 'every:100'")
    if schedule == "paper-translation":  # Appendix, Translation Evaluation
        return chain((0, 50, 100, 500, 1000, 1500), count(2000, 2000))
    if schedule == "paper-classification":  # Appendix, Classification Evaluation
        return chain((0, 10, 50, 100, 150, 200), count(250, 250))
    if schedule == "epochs":
        if epoch is None:
            raise OptionError(
                "schedule 'epochs' needs a finite training split, and a stream has no epochs: write every:N, as in "
                "-o checkpoints=every:10"
            )
        return count(0, max(epoch, 1))  # an empty split has none
    if schedule.startswith("every:"):
        return count(0, _number(schedule.removeprefix("every:"), schedule, low=1))
    return sorted({_number(part, schedule, low=0) for part in schedule.split(",")})


def _log_spaced() -> Iterator[int]:
    """0, then five a decade: 4, 6, 10, 16, 25, 40, 63, 100 ..."""
    yield from (0, 4, 6)
    for power in count(1):
        for tenths in (10, 16, 25, 40, 63):
            yield tenths * 10**power // 10


def _number(text: str, schedule: str, *, low: int) -> int:
    if not text.strip().isdecimal() or int(text) < low:
        raise OptionError(
            f"schedule {schedule!r} is not one: write log, paper-translation, paper-classification, epochs, every:N or "
            "0,10,100"
        )
    return int(text)
