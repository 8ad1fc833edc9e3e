"""Experiments: what they are given, what is written, and that what is finished is not done again."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import pytest
from matplotlib.figure import Figure

from here import Here
from ktiwprobe import build_registry, option
from ktiwprobe.claims.writeup import FORMATS, show_report, to_csv, write_report
from ktiwprobe.errors import UnknownNameError, UsageError
from ktiwprobe.experiments import Result, SweepError, reproduce
from ktiwprobe.plugins.hookspecs import hookimpl
from ktiwprobe.training.sweep import Job

pytestmark = pytest.mark.usefixtures("installed_tiny")


class Claim:
    """Two seeds learn something."""

    claim: ClassVar[str] = "Tiny models learn (Section 0)."
    seeds: ClassVar[tuple[int, ...]] = (0, 1)
    small_seeds: ClassVar[tuple[int, ...]] = (0,)
    options: ClassVar[dict[str, float]] = {}

    def run(self, context) -> Result:
        runs = context.train(
            Job("tiny-model", "tiny-task", seed, steps=context.steps, options=self.options) for seed in context.seeds
        )
        agreement = context.agree(f"{runs[0].name}:alpha@best", f"{runs[0].name}:beta@best")
        steps = [step for step, _ in context.signals(runs[0], "alpha")]
        rows = [{"seed": run.seed, "accuracy": run.performance()[30], "paper": None} for run in runs]
        return Result(
            "They do.", True, rows, [{"step": s, "rows": agreement.rows} for s in steps], {"nothing": Figure()}
        )


class AnyTask(Claim):
    """One that takes other data."""

    takes: ClassVar[tuple[str, ...]] = ("seeds", "steps", "task")


class Choosy(Claim):
    """One with options of its own, one of which is called like what all are asked."""

    takes: ClassVar[tuple[str, ...]] = ()
    seeds_of: ClassVar[dict[str, tuple[int, ...]]] = {"other": (7,)}

    @dataclass(frozen=True)
    class Options:
        seeds: int = option(2, low=1, help="how many")
        max_steps: int | None = option(None, low=1, help="at most")

    def run(self, context) -> Result:
        row = {"A(α, β)": 0.5, "seeds": context.options.seeds, "steps": context.options.max_steps}
        return Result("Yes.", None, [row], details=[{"cell": "A", "ours": 0.25}], digits=1)


class Elsewhere(AnyTask):
    """One whose usual seeds depend on the data."""

    seeds_of: ClassVar[dict[str, tuple[int, ...]]] = {"tiny-task": (4,)}


class Diverging(Claim):
    """One whose training fails."""

    options: ClassVar[dict[str, float]] = {"lr": 1e30}


@hookimpl
def register_experiments(register) -> None:
    for claim in (Claim, AnyTask, Choosy, Elsewhere, Diverging):
        register(claim.__name__.lower(), claim)


@pytest.fixture
def run_claim(tmp_path):
    """`reproduce` with the claims above, in this process."""
    claims = SimpleNamespace(register_experiments=register_experiments)
    registry = build_registry(extra={"claims": claims})
    engine = Here()

    def go(name="claim", **wishes):
        report = reproduce(name, runs=tmp_path / "runs", engine=engine, device="cpu", registry=registry, **wishes)
        return report, engine.begun

    return go


def test_a_claim_is_run_and_written_down(run_claim, tmp_path):
    """A page, a report, a CSV and each figure twice; the report says what it rests on."""
    report, _ = run_claim()
    files = write_report(report, tmp_path / "out")
    names = {str(file.relative_to(tmp_path / "out")) for file in files}
    inside = {"report.json", "table.csv", "table.tex", "curves.csv", "nothing.png", "nothing.pdf"}
    assert names == {"claim.md", *(f"claim/{name}" for name in inside)}
    assert all(file.stat().st_size for file in files)
    told = json.loads((tmp_path / "out/claim/report.json").read_text())
    assert told["verdict"] == "They do."
    assert told["holds"] is True
    assert told["runs"] == ["tiny-task/tiny-model-s0", "tiny-task/tiny-model-s1"]
    assert told["command"] == "ktiwprobe reproduce claim"
    assert {"date", "machine", "versions", "seconds", "seeds"} <= told.keys()
    page = (tmp_path / "out/claim.md").read_text()
    assert "| seed | accuracy | paper |" in page
    assert "Claim seen: yes." in page
    assert "![nothing](claim/nothing.png)" in page
    rows = list(csv.DictReader((tmp_path / "out/claim/curves.csv").read_text().splitlines()))
    assert [row["step"] for row in rows] == ["0", "10", "20", "30"]


def test_a_finished_claim_trains_nothing(run_claim):
    """The second time the runs are there."""
    first, begun = run_claim()
    second, still = run_claim()
    assert begun == still == 2
    assert second.result.table == first.result.table


def test_small_results_say_so_everywhere(run_claim, tmp_path):
    """The verdict, the notes, the command and the files' names are marked; fewer seeds run."""
    report, begun = run_claim(scale="small")
    assert begun == 1
    write_report(report, tmp_path)
    for text in (report.result.verdict, report.result.notes[0], report.command, report.name):
        assert "small" in text.lower()
    assert "Small scale" in (tmp_path / "claim-small.md").read_text()


def test_wishes_reach_the_experiment(run_claim):
    """Seeds and steps are the user's, and stand in the command that makes it again."""
    report, begun = run_claim(seeds=(3,), steps=30)
    assert begun == 1
    assert report.runs == ("tiny-task/tiny-model-s3",)
    assert report.command == "ktiwprobe reproduce claim --seeds 3 --steps 30"
    assert report.result.notes[:2] == [
        "Of 1 seeds only: the experiment's own are 2.",
        "Trained for 30 steps, not for the experiment's own.",
    ]
    assert report.result.verdict.endswith("(not the experiment's own seeds or steps)")


def test_an_experiment_has_options_of_its_own(run_claim):
    """They are filled strictly, win over wishes of the same name, and stand in the command."""
    report, _ = run_claim("choosy", seeds="3", options={"max_steps": "20"})
    assert report.result.table[0] == {"A(α, β)": 0.5, "seeds": 3, "steps": 20}
    assert report.command == "ktiwprobe reproduce choosy --seeds 3 --max-steps 20"
    with pytest.raises(UsageError, match=r"option choosy\.max_steps is 0: it must be at least 1"):
        run_claim("choosy", options={"max_steps": 0})
    with pytest.raises(UsageError, match=r"unknown option choosy\.max_step; did you mean 'max_steps'"):
        run_claim("choosy", options={"max_step": 1})
    with pytest.raises(UsageError, match="experiment 'choosy' has its own steps"):
        run_claim("choosy", steps=3)


def test_usual_seeds_may_depend_on_the_data(run_claim):
    """Unless the user says otherwise."""
    assert run_claim("elsewhere", task="tiny-task")[0].seeds == (4,)
    assert run_claim("elsewhere", task="tiny-task", seeds=(1,))[0].seeds == (1,)


def test_a_report_is_shown_in_every_format(run_claim):
    """For people with the digits that are meant, for programs in full, for papers with Greek letters as commands."""
    report, _ = run_claim("choosy")
    shown = {form: show_report(report, form) for form in FORMATS}
    assert "0.5" in shown["table"]
    assert "A     0.2\n" in shown["table"]
    assert json.loads(shown["json"])["details"] == [{"cell": "A", "ours": 0.25}]
    assert shown["csv"] == "cell,ours\nA,0.25"
    assert r"A($\alpha$, $\beta$) & seeds & steps \\" in shown["latex"]
    assert "| A(α, β) | seeds | steps |" in shown["markdown"]


def test_failed_jobs_are_told(run_claim):
    """Exit 3, how many, and why."""
    with pytest.raises(SweepError, match=r"2 of 2 jobs failed, the others are kept; .*diverged") as caught:
        run_claim("diverging")
    assert caught.value.exit_code == 3


def test_what_cannot_be_is_refused(run_claim):
    """An unknown scale, an unknown claim, data for a claim that has its own."""
    with pytest.raises(UnknownNameError, match="unknown scale 'tiny'"):
        run_claim(scale="tiny")
    with pytest.raises(UnknownNameError, match="did you mean 'copying'"):
        run_claim("copyin")
    with pytest.raises(UsageError, match="has its own task and takes no others"):
        run_claim(task="tiny-task")
    assert run_claim("anytask", task="tiny-task")[0].command.endswith("--task tiny-task")


def test_rows_with_different_keys_make_one_csv():
    """What a row lacks is empty, and numbers are short."""
    assert to_csv([{"a": 1}, {"b": 0.123456789}]) == "a,b\n1,\n,0.123457\n"
    assert to_csv([]) == ""
