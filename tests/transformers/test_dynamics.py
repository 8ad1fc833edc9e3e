"""transformer-dynamics: what it measures of each head, and how it judges."""

from __future__ import annotations

from typing import Any

import pytest

from here import Here
from ktiwprobe import agree
from ktiwprobe.experiments import reproduce
from ktiwprobe_transformers.dynamics import halfway, readings
from ktiwprobe_transformers.dynamics_result import ALL, Found, Line, judged


@pytest.fixture
def claim(tmp_path, data_folder):
    """The experiment in this process, small and short."""

    def go(**wishes: Any) -> Any:
        about = {"runs": tmp_path / "runs", "engine": Here(), "device": "cpu", "scale": "small", "steps": 6}
        return reproduce("transformer-dynamics", **about, **wishes)

    return go


def test_heads_are_read_together_by_layer_and_alone():
    """Each head once alone; in another seed its layer stands for it."""
    found = {reading.name: reading for reading in readings(["cross:0.h0", "cross:0.h1", "cross:1.h0", "cross:1.h1"])}
    assert list(found) == [ALL, "cross:0", "cross:0.h0", "cross:0.h1", "cross:1", "cross:1.h0", "cross:1.h1"]
    assert (found["cross:1.h1"].mine, found["cross:1.h1"].theirs) == ([3], [2, 3])
    assert found[ALL].mine == found[ALL].theirs == [0, 1, 2, 3]


def test_half_way_is_from_chance_to_the_highest():
    """The first step there, even if it falls back later; nothing where the highest is hardly above chance."""
    assert halfway({0: 0.1, 4: 0.45, 6: 0.3, 10: 0.8}, 0.1) == 4
    assert halfway({0: 0.1, 4: 0.44, 6: 0.3, 10: 0.8}, 0.1) == 10
    assert halfway({0: 0.1, 4: 0.14}, 0.1) is None


def seed(beta: int | None, alpha: int | None, uniform: float = 0.9) -> Found:
    """A seed whose curves are half-way at these steps."""
    values = {"beta": {0: 0.9}, "beta-uf": {0: uniform}, "alpha": {0: 0.9}}
    line = Line(values, 0.1, 0.5, 0.9, {"beta": beta, "beta-uf": beta, "alpha": alpha}, None)
    return Found(0, {ALL: line}, {0: 0.5}, {})


@pytest.mark.parametrize(
    ("seeds", "holds"),
    [
        ([seed(10, 40), seed(16, 25)], True),
        ([seed(10, 40), seed(25, 25)], None),  # one comes with it
        ([seed(40, 10), seed(25, 25)], False),
        ([seed(10, 40, uniform=0.15)], False),  # first, but of nothing
        ([seed(10, None)], False),  # attention that another seed does not share tells no time
    ],
)
def test_it_holds_only_if_it_does_for_every_seed(seeds, holds):
    """Undecided if for some."""
    assert judged(seeds) is holds


def test_every_head_is_compared_as_agree_does(claim, tmp_path):
    """Two seeds, learned and uniform; a row's values are those of `agree` on the runs' SPECs."""
    report = claim()
    result = report.result
    assert len(report.runs) == 4
    assert [row["heads"] for row in result.table] == [ALL, "cross:0", "cross:1"]
    assert len(result.details) == 2 * (1 + 2 + 4)
    assert set(result.figures) == {"agreement", "gold", "heads-beta", "heads-beta-uf"}
    (row,) = [row for row in result.details if (row["seed"], row["site"]) == (0, "cross:1.h1")]
    learned = {name.rpartition("-s")[2]: name for name in report.runs if "uniform" not in name}
    for key, name in (("beta-hat", learned["1"]), ("beta-uf", learned["1"].replace("-s1", "-uniform-s1"))):
        found = agree(f"{learned['0']}:alpha[cross:1.h1]@best", f"{name}:beta@max", runs=tmp_path / "runs")
        assert row[f"A(alpha, {key})"] == pytest.approx(found.value)
        assert row["chance"] == pytest.approx(found.baseline, rel=0.1)
    assert report.result.verdict.endswith("(small scale)")


def test_it_takes_real_text_and_another_network(claim):
    """Without gold there is no column for it; the network is as told."""
    report = claim(task="multi30k", options={"config": "marian", "layers": 1})
    assert {row["site"] for row in report.result.details} == {ALL, "cross:0", "cross:0.h0", "cross:0.h1"}
    assert "alpha on gold" not in report.result.details[0]
    assert "gold" not in report.result.figures
    assert report.command.endswith("--task multi30k --config marian --layers 1 --scale small")
