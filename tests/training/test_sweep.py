"""Many runs: grids, jobs that are skipped, that fail, whose workers die."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

import tiny
from here import Here
from ktiwprobe import build_registry
from ktiwprobe.errors import Interrupted, OptionError, UnknownNameError, UsageError
from ktiwprobe.files.progress import Progress
from ktiwprobe.plugins.hookspecs import hookimpl
from ktiwprobe.runs.run import Run
from ktiwprobe.training.engines import make_engine
from ktiwprobe.training.sweep import INTERRUPTED, Job, grid, parse_seeds, sweep

pytestmark = pytest.mark.usefixtures("installed_tiny")


tiny_more = SimpleNamespace(
    register_models=hookimpl(specname="register_models")(lambda register: register("other-model", tiny.TinyModel))
)


class Heard(Progress):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.ended: dict[str, str] = {}

    def job_ended(self, name: str, how: str) -> None:
        self.ended[name] = how


def test_a_grid_is_every_combination():
    """Tasks, models, attentions, listed options and seeds multiply; what is not a list stays."""
    jobs = grid(["m"], ["a", "b"], ["learned", "uniform"], [0, 1, 2], options={"x": [1, 2], "y": 3}, steps=5)
    assert len({(j.task, j.attention, j.seed, j.options["x"]) for j in jobs}) == len(jobs) == 24
    assert all(job.options["y"] == 3 and job.steps == 5 for job in jobs)


@pytest.mark.parametrize(
    ("text", "seeds"), [("0-3,7", (0, 1, 2, 3, 7)), ("5", (5,)), (" 2 , 1-1", (2, 1)), ("1,0-2", (1, 0, 2))]
)
def test_seeds_are_read(text, seeds):
    """Ranges and single seeds, each once."""
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "3-1", "-1", "1,,2", "1-2-3"])
def test_seeds_that_are_none_are_refused(text):
    """Anything else is a sentence."""
    with pytest.raises(UsageError, match="not a list such as 0-3,7"):
        parse_seeds(text)


def test_jobs_run_once_and_are_then_found(tmp_path):
    """Finished runs are skipped, more steps extend them, and one run asked for twice is one job."""
    jobs = [Job("tiny-model", "tiny-task", seed) for seed in (0, 1)]
    engine = Here()
    assert [o.state for o in sweep(jobs, runs=tmp_path, engine=engine, device="cpu")] == ["done", "done"]
    again = sweep([*jobs, jobs[0]], runs=tmp_path, engine=engine, device="cpu")
    assert [o.state for o in again] == ["found"] * 3
    assert engine.begun == 2
    (longer,) = sweep([Job("tiny-model", "tiny-task", 0, steps=40)], runs=tmp_path, engine=engine, device="cpu")
    assert longer.state == "done"
    assert longer.run.steps()[-1] == 40


def test_a_job_that_was_interrupted_goes_on(tmp_path, run_tiny, monkeypatch):
    """A run that was stopped in mid-training is resumed, and equals one that was not."""
    whole = run_tiny(runs="whole")
    stopped = iter([False] * 17 + [True] * 99)
    with monkeypatch.context() as patch:
        patch.setattr("ktiwprobe.training.loop.stop_when_asked", lambda: contextlib.nullcontext(lambda: next(stopped)))
        with pytest.raises(Interrupted):
            run_tiny(runs="part")
    (outcome,) = sweep([Job("tiny-model", "tiny-task")], runs=tmp_path / "part", engine=Here(), device="cpu")
    assert outcome.state == "done"
    assert outcome.run.checkpoint(30).read_bytes() == whole.checkpoint(30).read_bytes()


def test_a_run_beyond_its_job_is_finished_even_if_interrupted(tmp_path, run_tiny, monkeypatch):
    """What asks for fewer steps than a stopped run has is answered, not refused."""
    stopped = iter([False] * 17 + [True] * 99)
    with monkeypatch.context() as patch:
        patch.setattr("ktiwprobe.training.loop.stop_when_asked", lambda: contextlib.nullcontext(lambda: next(stopped)))
        with pytest.raises(Interrupted):
            run_tiny()
    (short,) = sweep([Job("tiny-model", "tiny-task", steps=10)], runs=tmp_path / "runs", engine=Here(), device="cpu")
    assert short.state == "found"


def test_a_run_that_is_too_short_is_not_finished(tmp_path, run_tiny):
    """Whether the length is given, an option, or the default."""
    run_tiny(steps=10)
    for job, last in (
        (Job("tiny-model", "tiny-task"), 30),
        (Job("tiny-model", "tiny-task", options={"steps": 35}), 35),
    ):
        (outcome,) = sweep([job], runs=tmp_path / "runs", engine=Here(), device="cpu")
        assert (outcome.state, outcome.run.steps()[-1]) == ("done", last)


def test_of_jobs_that_differ_in_length_the_longest_is_run(tmp_path):
    """And every job gets its outcome."""
    jobs = [Job("tiny-model", "tiny-task", steps=steps) for steps in (10, 25, 20)]
    outcomes = sweep(jobs, runs=tmp_path, engine=Here(), device="cpu")
    assert [o.job for o in outcomes] == jobs
    assert {o.run.steps()[-1] for o in outcomes} == {25}


def test_workers_must_be_able_to_find_a_plugin(tmp_path, tiny_registry):
    """A model that only this process knows is refused before a worker fails to find it."""
    extra = build_registry(extra={"more": tiny_more})
    with pytest.raises(UsageError, match="model 'other-model' is known to this process only"):
        sweep([Job("other-model", "tiny-task")], runs=tmp_path, engine=Here(), registry=extra)


def test_one_failure_leaves_the_others(tmp_path):
    """A job that diverges is told with its reason; the others are done."""
    jobs = [Job("tiny-model", "tiny-task", options={"lr": lr}) for lr in (0.03, 1e30)]
    heard = Heard()
    good, bad = sweep(jobs, runs=tmp_path, engine=Here(), device="cpu", progress=heard)
    assert (good.state, bad.state) == ("done", "failed")
    assert "diverged" in bad.reason
    assert heard.ended[bad.run.name] == bad.reason
    assert heard.ended[good.run.name].startswith("step 30, accuracy ")


def test_what_cannot_be_is_refused_before_anything_runs(tmp_path):
    """A wrong option in the last job keeps the first from starting."""
    jobs = [Job("tiny-model", "tiny-task"), Job("tiny-model", "tiny-task", options={"nonsense": 1})]
    with pytest.raises(OptionError, match="nonsense"):
        sweep(jobs, runs=tmp_path, engine=Here())
    assert not list(tmp_path.glob("tiny-task*"))


def test_work_whose_worker_died_is_begun_again(tmp_path):
    """A few deaths are survived."""
    engine = Here(deaths=2)
    outcomes = sweep([Job("tiny-model", "tiny-task", s) for s in (0, 1)], runs=tmp_path, engine=engine, device="cpu")
    assert [o.state for o in outcomes] == ["done", "done"]
    assert engine.begun == 4


def test_work_that_kills_every_worker_fails(tmp_path):
    """After its retries a job is given up, with the likely cause."""
    (outcome,) = sweep([Job("tiny-model", "tiny-task")], runs=tmp_path, engine=Here(deaths=99), device="cpu")
    assert outcome.state == "failed"
    assert "out of memory" in outcome.reason
    assert not Run(outcome.run.path).exists


def test_an_unexpected_error_is_named(tmp_path, monkeypatch):
    """A bug in one job is told by its type, and does not stop a sweep."""

    def broken(*_args: object, **_more: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("ktiwprobe.training.sweep.follow", broken)
    (outcome,) = sweep([Job("tiny-model", "tiny-task")], runs=tmp_path, engine=Here())
    assert outcome.reason == "ZeroDivisionError: oh"


def test_a_worker_told_to_stop_is_begun_again(tmp_path, monkeypatch):
    """Somebody else's polite kill is not the user's Ctrl-C: the job is tried again, a few times."""
    monkeypatch.setattr("ktiwprobe.training.sweep._work", lambda *_: INTERRUPTED)
    engine = Here()
    (outcome,) = sweep([Job("tiny-model", "tiny-task")], runs=tmp_path, engine=engine)
    assert outcome.reason == "it was told to stop, 4 times"
    assert engine.begun == 4


def test_the_local_engine_gives_the_same_bits(tmp_path, run_tiny):
    """Worker processes write what this process writes."""
    alone = run_tiny(runs="alone")
    jobs = [Job("tiny-model", "tiny-task", seed) for seed in (0, 1, 2)]
    outcomes = sweep(jobs, runs=tmp_path / "swept", engine=make_engine("local", workers=2), device="cpu")
    assert [o.state for o in outcomes] == ["done"] * 3
    assert outcomes[0].run.checkpoint(30).read_bytes() == alone.checkpoint(30).read_bytes()


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"name": "cloud"}, UnknownNameError),
        ({"name": "local", "cpus": 2}, UsageError),
        ({"name": "ray", "workers": 2, "address": "host:1"}, UsageError),
    ],
)
def test_engines_that_cannot_be_are_refused(wish, error):
    """An unknown engine, or shares of a job that the local one cannot give."""
    with pytest.raises(error):
        make_engine(**wish)
