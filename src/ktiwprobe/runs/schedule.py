"""At which steps to look: schedules, written as text.

A schedule does not depend on how long the run is, so a run that is extended keeps the points it had.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, takewhile

from ktiwprobe.errors import OptionError

Named = Mapping[str, Callable[[], Iterable[int]]]  # the steps of schedules that plugins registered


def steps_of(schedule: str, last: int, *, epoch: int | None = None, named: Named | None = None) -> set[int]:
    """The steps of `schedule` up to `last`, which is always among them; an epoch has `epoch` steps, None if unknown."""
    return {*takewhile(lambda step: step <= last, _endless(schedule, epoch, named or {})), last}


def is_due(schedule: str, step: int, *, epoch: int | None = None, named: Named | None = None) -> bool:
    """Whether `step` is of `schedule`, wherever the training may end."""
    steps = _endless(schedule, epoch, named or {})
    return any(other == step for other in takewhile(lambda other: other <= step, steps))


def _endless(schedule: str, epoch: int | None, named: Named) -> Iterable[int]:
    if schedule == "log":
        return _log_spaced()
    if not isinstance(schedule, str):
        raise OptionError(f"schedule {schedule!r} is not text: write it as in '0,10,100' or 'every:100'")
    if schedule in named:
        return named[schedule]()
    if schedule == "epochs":
        if epoch is None:
            raise OptionError(
                "schedule 'epochs' needs a finite training split, and a stream has no epochs: write every:N, as in "
                "checkpoints=every:10"
            )
        return count(0, max(epoch, 1))  # an empty split has none
    if schedule.startswith("every:"):
        return count(0, _number(schedule.removeprefix("every:"), schedule, named, low=1))
    return sorted({_number(part, schedule, named, low=0) for part in schedule.split(",")})


def _log_spaced() -> Iterator[int]:
    """0, then five a decade: 4, 6, 10, 16, 25, 40, 63, 100 ..."""
    yield from (0, 4, 6)
    for power in count(1):
        for tenths in (10, 16, 25, 40, 63):
            yield tenths * 10**power // 10


def _number(text: str, schedule: str, named: Named, *, low: int) -> int:
    if not text.strip().isdecimal() or int(text) < low:
        forms = ["log", *named, "epochs", "every:N"]
        raise OptionError(f"schedule {schedule!r} is not one: write {', '.join(forms)} or 0,10,100")
    return int(text)
