"""How long trainings took: a file of its own, which survives kills and decides nothing."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from ktiwprobe import Run
from ktiwprobe.errors import Interrupted
from ktiwprobe.runs.times import Session, read_sessions
from observe import Watch, outcome, the_run


def test_each_session_is_a_line(run_tiny: Callable[..., Run], tiny_run: Run, tmp_path: Path) -> None:
    """From and to which step, how long, and when it began; what was finished already is no session."""
    with pytest.raises(Interrupted):
        run_tiny(runs="broken", progress=Watch(17))
    for _ in range(2):
        run = run_tiny(runs="broken", resume=True)
    sessions = read_sessions(run.path / "times.jsonl")
    assert [(session["from"], session["to"]) for session in sessions] == [(0, 17), (17, 30)]
    assert all(datetime.fromisoformat(session["started"]).tzinfo for session in sessions)
    assert run.seconds() == sum(session["seconds"] for session in sessions) > 0
    assert outcome(run) == outcome(tiny_run)


def test_a_model_that_fits_itself_has_a_session(run_tiny: Callable[..., Run]) -> None:
    """From 0 to the last step that it kept."""
    run = run_tiny("tiny-count")
    (session,) = read_sessions(run.path / "times.jsonl")
    assert (session["from"], session["to"]) == (0, run.steps()[-1])


def test_a_session_is_rewritten_with_each_state(tmp_path: Path) -> None:
    """A kill loses what was not saved; the lines before stay, but for one that a crash cut short."""
    file = tmp_path / "times.jsonl"
    whole = {"from": 0, "to": 5, "seconds": 2.5, "started": "2026-11-20T10:00:00+00:00"}
    file.write_text(json.dumps(whole) + '\n{"from": 5, "to')
    session = Session(file, 5)
    for step in (6, 8):
        session.save(step)
        assert [line["to"] for line in read_sessions(file)] == [5, step]
    assert read_sessions(file)[0] == whole


@pytest.mark.parametrize("noise", ["", "null\n", '{"seconds": "long"}\n', "\x00"])
def test_times_decide_nothing(tiny_run: Run, run_tiny: Callable[..., Run], noise: str) -> None:
    """Without the file, or with a damaged one, everything else works."""
    (tiny_run.path / "times.jsonl").write_text(noise)
    assert tiny_run.seconds() is None
    assert run_tiny(steps=32).steps()[-1] == 32
    (tiny_run.path / "times.jsonl").unlink()
    assert the_run(tiny_run.path.parent.parent).seconds() is None
