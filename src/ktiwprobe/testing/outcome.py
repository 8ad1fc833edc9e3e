"""One check and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ktiwprobe.errors import ContractError, KtiwprobeError, raised_at
from ktiwprobe.plugins import capabilities


@dataclass(frozen=True, slots=True)
class Outcome:
    """A check by name: passed if `problem` is None; a check that does not apply is passed with `note`."""

    name: str
    problem: str | None = None
    note: str = ""


class Failed(Exception):
    """Raised by a check; its text tells the author what to change."""


class Skipped(Exception):
    """Raised by a check that does not apply; its text says why."""


def run_checks(checks: Iterable[Callable[[Any], None]], case: Any) -> Iterator[Outcome]:
    """Run each check on `case`; whatever a plugin's code raises becomes an outcome with its file and line, once."""
    told: set[str] = set()
    for check in checks:
        name = (check.__doc__ or check.__name__).strip().splitlines()[0].rstrip(".")
        outcome = _outcome(check, case, name)
        if outcome.problem in told:
            outcome = Outcome(name, note="stopped by the same problem as above")
        if outcome.problem:
            told.add(outcome.problem)
        yield outcome


def _outcome(check: Callable[[Any], None], case: Any, name: str) -> Outcome:
    try:
        check(case)
    except Skipped as reason:
        return Outcome(name, note=str(reason))
    except (Failed, KtiwprobeError) as problem:
        return Outcome(name, str(problem))
    except Exception as error:  # the code under test is a plugin's: any exception is a finding
        text, place = " ".join(str(error).split())[:300], raised_at(error)
        return Outcome(name, f"it raised {type(error).__name__}: {text}" + (f" ({place})" if place else ""))
    return Outcome(name)


def raise_failures(what: str, outcomes: Iterable[Outcome]) -> None:
    """One error that lists every failure."""
    failures = [f"{outcome.name}: {outcome.problem}" for outcome in outcomes if outcome.problem]
    if failures:
        raise ContractError(f"{what} does not conform:\n- " + "\n- ".join(failures))


def name_of(thing: object) -> str:
    """What a sentence calls something under test."""
    return thing if isinstance(thing, str) else capabilities.name_of(thing)
