"""The paper's Table 1: the numbers of a row are those of its definitions, and what is said of them follows."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from here import Here
from ktiwprobe import agree, build_registry, train
from ktiwprobe.compare.agreement import add_up, xi
from ktiwprobe.compare.metrics import Agreement
from ktiwprobe.errors import CorpusError, OptionError
from ktiwprobe.experiments import reproduce
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.runs.run import find_run
from ktiwprobe_paper.experiments.comparison import Cell, Row
from ktiwprobe_paper.experiments.published import QUANTITIES, TABLES
from ktiwprobe_paper.experiments.table_result import is_above_chance, judged

SENTIMENT = "toy-sentiment:train=120:validation=30:test=10"
TRANSLATION = "toy-translation:train=60:validation=20:test=10"


@pytest.fixture
def table(tmp_path):
    """`reproduce table` in this process, small."""
    engine = Here()

    def go(*tasks, **options):
        about = {"runs": tmp_path / "runs", "engine": engine, "device": "cpu", "scale": "small"}
        return reproduce("table", options={"tasks": tasks, "max_steps": 10, **options}, **about), engine.begun

    return go


def cells(report):
    return {(line["task"], line["quantity"]): line for line in report.result.details}


def test_the_papers_numbers_are_whole():
    """Every table has a number in every column that it has; A(α, β̂) of SST is 25.33, its ξ(β-uf, β-px) has a star."""
    for (metric, _, performance), published in TABLES.items():
        rows = [published.row(line.split()[0]) for line in published.text.strip().splitlines()]
        assert len(rows) == (5 if performance == "bleu" else 11)
        assert all(row.keys() == rows[0].keys() for row in rows)
        assert len(rows[0]) == (8 if metric == "kendall" or published.label.endswith("trainbleu") else len(QUANTITIES))
    sst = TABLES["agreement", "validation", "accuracy"].row("sst")
    assert sst["A(α, β̂)"] == (25.33, True)
    assert sst["ξ(β-uf, β-px)"] == (83.53, False)
    assert TABLES["agreement", "validation", "accuracy"].row("sst:labels=counts:keep=glove") == sst
    assert not TABLES["agreement", "validation", "accuracy"].row("multi30k:direction=en-de")
    assert TABLES["agreement", "validation", "accuracy"].row("sms") == {}


def test_a_row_of_classification_is_what_it_is_defined_as(table, tmp_path):
    """Each A as `agree` finds it between those very runs; ξ off curves averaged over all runs but A."""
    report, begun = table(SENTIMENT, seeds=3)
    assert begun == 5  # three learned, one uniform, one proxy
    found, about = cells(report), {"runs": tmp_path / "runs", "device": "cpu"}
    a, b, c, uniform, proxy = report.runs
    assert [name.rpartition("-s")[2] for name in report.runs] == ["20", "13", "14", "12", "12"]
    pairs = {
        "α, β-uf": (f"{a}:alpha@best", f"{uniform}:beta@max"),
        "β-uf, β-px": (f"{proxy}:beta@best", f"{uniform}:beta@max"),
        "Δ, β-uf": (f"{a}:delta@best", f"{uniform}:beta@max"),
        "α, β̂": (f"{a}:alpha@best", f"{b}:beta@max"),
    }
    registry, rule = build_registry(), Agreement()
    runs = {name: find_run(tmp_path / "runs", name) for name in (a, b, c)}
    over = {name: Extractor(run, registry, device="cpu") for name, run in runs.items()}
    alpha = over[a].signal("alpha", "best")
    curve = {
        step: tuple(np.mean([(add_up(alpha, over[n].signal("alpha", step), rule).value, runs[n].performance()[step])
                             for n in (b, c)], 0))
        for step in runs[b].steps()
    }  # fmt: skip
    for name, (u, v) in pairs.items():
        expected = agree(u, v, **about)
        line = found[SENTIMENT, f"A({name})"]
        assert line["ours"] == pytest.approx(100 * expected.value)
        assert (line["low"], line["high"]) == pytest.approx([100 * end for end in expected.ci])
        passed = xi(expected.value, curve)
        star = max(runs[a].performance().values())
        assert found[SENTIMENT, f"ξ({name})"]["ours"] == pytest.approx(100 * (star if passed is None else passed))
    assert found[SENTIMENT, "ξ*"]["ours"] == pytest.approx(100 * star)
    assert {line["n"] for line in found.values()} == {1, 3}  # the uniform run and the proxy have no other seed


def test_a_row_of_translation_hears_the_next_run_only(table, tmp_path):
    """ξ off B alone; IBM Model 1 has columns; a seed more brings a uniform run and a proxy more."""
    report, begun = table(TRANSLATION, seeds=3)
    assert begun == 8  # three learned, two uniform, two proxies, IBM Model 1
    found = cells(report)
    a, b, *_ = report.runs
    ibm = report.runs[-1]
    assert found[TRANSLATION, "A(α, β-ibm)"]["ours"] == pytest.approx(
        100 * agree(f"{a}:alpha@best", f"{ibm}:beta@best", runs=tmp_path / "runs", device="cpu").value
    )
    assert found[TRANSLATION, "A(β-uf, β-px)"]["n"] == 2
    performance = find_run(tmp_path / "runs", b).performance()
    for name in ("α, β̂", "Δ, β-uf"):
        value = found[TRANSLATION, f"ξ({name})"]["ours"]
        assert any(
            value == pytest.approx(100 * p) for p in (*performance.values(), found[TRANSLATION, "ξ*"]["ours"] / 100)
        )


def test_rows_that_are_cut_are_marked_and_do_not_count(table):
    """By nothing but their length: the verdict is silent about them."""
    report, _ = table(SENTIMENT, seeds=2)
    assert report.result.holds is None
    assert report.result.verdict.startswith("No row was trained in full")
    assert {line["counts"] for line in report.result.details} == {False}
    assert report.result.table[0]["steps"] == "10 of 400, cut"
    assert any("Cut short of 400 steps: does not count" in note for note in report.result.notes)
    assert any("The paper has 6 learned runs" in note for note in report.result.notes)


def test_what_was_trained_further_is_read_up_to_the_cut(table, tmp_path):
    """The same table, whether runs end at the cut or somebody has gone on with them."""
    before, _ = table(SENTIMENT, seeds=2)
    values = {"task.train": 120, "task.validation": 30, "task.test": 10, "model.hidden": 32, "model.embedding": 32}
    for seed, how in ((20, "learned"), (13, "learned"), (12, "uniform")):
        train(
            "lstm-classifier",
            "toy-sentiment",
            seed=seed,
            attention=how,
            steps=25,
            options=values,
            runs=tmp_path / "runs",
            device="cpu",
        )
    after, _ = table(SENTIMENT, seeds=2)
    assert after.result.details == before.result.details


def test_bleu_and_the_training_split_have_their_own_best(table, tmp_path):
    """ξ* is the best BLEU on the training sample; the signature is told."""
    report, _ = table(TRANSLATION, performance="bleu", split="train", metric="kendall")
    star = cells(report)[TRANSLATION, "ξ*"]["ours"]
    files = (tmp_path / "runs").glob("*/*-s20/performance/train/*/bleu.json")
    assert star == max(json.loads(file.read_text())["bleu"] for file in files)
    assert any("tok:13a" in note for note in report.result.notes)


def test_what_cannot_be_is_told_before_anything_is_trained(table, data_folder, tmp_path, monkeypatch):
    """BLEU of a classifier, a row that is none, data that is not there."""
    with pytest.raises(OptionError, match="BLEU is for translation, and toy-sentiment is classification"):
        table(SENTIMENT, performance="bleu")
    with pytest.raises(OptionError, match="row 'sst:tree' is not TASK or TASK:key=value"):
        table("sst:tree")
    monkeypatch.setenv("KTIWPROBE_DATA", str(tmp_path))
    with pytest.raises(CorpusError, match=r"data set 'sms' is not in .*: put train\.tsv"):
        table(SENTIMENT, "sms")
    assert not (tmp_path / "runs").exists()


def test_cells_are_judged_by_interval_and_range():
    """Far only if outside both; rounding is forgiven; without a number of the paper nothing is said."""
    cell = Cell(50.0, (48.0, 52.0), (50.0, 55.0))
    assert not judged(cell, (55.004, True))["far"]
    assert judged(cell, (55.1, True))["far"]
    assert judged(cell, (47.9, True))["far"]
    assert judged(cell, None)["far"] is None
    assert judged(cell, None)["sd"] == pytest.approx(np.std([50, 55], ddof=1))
    row = Row({"A": cell, "chance": Cell(48.5)})
    assert not is_above_chance(row, "A")
    assert is_above_chance(Row({**row.cells, "A": dataclasses.replace(cell, ci=(48.6, 52.0))}), "A")
