"""Tables: one result or several, for people, programs and papers."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from ktiwprobe import Agreement
from ktiwprobe.compare.caveats import Caveat
from ktiwprobe.views.tables import agreement_table, align, latex, show_agreement

WHOLE = Agreement(
    metric="agreement",
    u="toy/m_1-s0:alpha@100",
    v="toy/m_1-s1:beta@63",
    value=0.75,
    baseline=0.125,
    ci=(0.5, 0.875),
    rows=400,
    skipped=2,
    ties=3,
    performance="accuracy",
    xi=0.25,
    xi_star=0.96875,
)
BARE = Agreement("kendall", "u.npz", "gold", None, None, None, 0, 12, 0)


def test_one_result_is_a_line_for_each_quantity() -> None:
    """Every number, the interval, what was skipped, the unit of xi, and the ties."""
    lines = dict(line.split("  ", 1) for line in show_agreement([WHOLE]).splitlines()[:-1])
    cells = {name.strip(): cell.strip() for name, cell in lines.items()}
    assert cells == {
        "u": WHOLE.u,
        "v": WHOLE.v,
        "agreement": "0.750",
        "baseline": "0.125",
        "95 % interval": "[0.500, 0.875]",
        "rows": "400 (2 skipped)",
        "ξ (accuracy)": "0.250",
        "ξ*": "0.969",
    }
    assert show_agreement([WHOLE]).splitlines()[-1] == "in 3 rows the highest value of u is tied: the first counts"


def test_what_is_unknown_is_a_dash() -> None:
    """No None and no NaN is shown to people."""
    text = show_agreement([BARE])
    assert "None" not in text
    assert "nan" not in text
    assert text.splitlines()[2].split() == ["kendall", "-"]
    assert "tied" not in text


def test_an_asterisk_marks_a_xi_that_was_never_passed() -> None:
    """Only then, and not where xi happens to equal xi*."""
    never = replace(WHOLE, xi=WHOLE.xi_star, passed=False)
    equal = replace(WHOLE, xi=WHOLE.xi_star)
    for form in ("table", "latex"):
        assert "0.969*" in show_agreement([never], form)
        assert "0.969*" not in show_agreement([equal], form)


def test_several_results_are_a_line_each() -> None:
    """Columns under heads, each value beside its metric."""
    lines = show_agreement([WHOLE, BARE]).splitlines()
    assert len(lines) == 4
    assert lines[0].split()[:3] == ["u", "v", "metric"]
    assert set(lines[1]) == {"-", " "}
    assert "agreement 0.750" in lines[2]
    assert "kendall -" in lines[3]
    assert lines[2].index("agreement") == lines[3].index("kendall") == lines[0].index("metric")


@pytest.mark.parametrize("metric", ["u", "baseline", "rows", "ξ"])
def test_a_metric_may_have_any_name(metric: str) -> None:
    """A plugin's metric called like a column takes nothing else away."""
    text = show_agreement([replace(WHOLE, metric=metric)])
    for cell in (WHOLE.u, "0.750", "0.125", "400", "0.250"):
        assert cell in text


def test_json_is_one_object_or_a_list() -> None:
    """It parses back to what was said, floats whole."""
    assert json.loads(show_agreement([WHOLE], "json")) == WHOLE.to_dict()
    assert json.loads(show_agreement([WHOLE, BARE], "json")) == [WHOLE.to_dict(), BARE.to_dict()]


def test_csv_parses() -> None:
    """The interval has two columns, commas are quoted, what is unknown is empty."""
    odd = replace(WHOLE, metric="top-k:k=3,x=1", u='a "b", c')
    rows = list(csv.DictReader(show_agreement([odd, BARE], "csv").splitlines()))
    assert rows[0]["metric"] == "top-k:k=3,x=1"
    assert rows[0]["u"] == 'a "b", c'
    assert (float(rows[0]["ci_low"]), float(rows[0]["ci_high"])) == WHOLE.ci
    assert float(rows[0]["xi_star"]) == WHOLE.xi_star
    assert rows[1]["value"] == rows[1]["ci_low"] == rows[1]["performance"] == ""
    assert rows[1]["skipped"] == "12"


def test_latex_escapes() -> None:
    """Names with characters that mean something to LaTeX stay names; rows have as many cells as columns."""
    text = show_agreement([replace(WHOLE, u=r"a_b&c%d#e$f{g}~h^i\j"), BARE], "latex")
    assert r"a\_b\&c\%d\#e\$f\{g\}\textasciitilde{}h\textasciicircum{}i\textbackslash{}j" in text
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{lllrrrrr}"
    assert lines[-1] == r"\end{tabular}"
    for line in (lines[1], *lines[3:-1]):
        assert line.endswith(r"\\")
        assert line.replace(r"\&", "").count("&") == 7


def test_warnings_and_how_steps_were_chosen_are_shown() -> None:
    """In every format; a warning that several results share stands once, and no number is touched."""
    chosen = {"u": "best by accuracy", "v": "max of 12 checkpoints"}
    warned = replace(WHOLE, chosen=chosen, warnings=(Caveat("few", "only 3"), Caveat("maximum", "100 % chosen")))
    lines = show_agreement([warned]).splitlines()
    assert lines[0].endswith("alpha@100 (best by accuracy)")
    assert lines[1].endswith("beta@63 (max of 12 checkpoints)")
    assert lines[-2:] == ["warning: only 3", "warning: 100 % chosen"]
    both = [warned, replace(warned, metric="kendall")]
    assert show_agreement(both).splitlines()[2].split()[:4] == [WHOLE.u, "(best)", WHOLE.v, "(max)"]
    assert show_agreement(both).splitlines()[4:] == ["warning: only 3", "warning: 100 % chosen"]
    assert show_agreement(both, "latex").splitlines()[-2:] == ["% warning: only 3", "% warning: 100 % chosen"]
    (row, _) = csv.DictReader(show_agreement(both, "csv").splitlines())
    assert row["warnings"] == "only 3; 100 % chosen"
    assert (row["u_chosen"], row["v_chosen"]) == tuple(chosen.values())
    assert json.loads(show_agreement([warned], "json"))["warnings"] == ["only 3", "100 % chosen"]
    assert "only 3" in agreement_table([warned])._repr_html_()
    assert "warnings" not in str(agreement_table([WHOLE]))


def test_a_hat_takes_no_room_and_is_tex() -> None:
    """A letter with a hat is one column wide, and a formula in LaTeX."""
    assert align([["A(α, β̂)", "n"], ["A(α, β)", 1]]).splitlines()[::2] == ["A(α, β̂)  n", "A(α, β)  1"]
    assert latex([["A(α, β̂)", "x_1"]]).splitlines()[1] == r"A($\alpha$, $\hat{\beta}$) & x\_1 \\"


def test_columns_are_aligned() -> None:
    """Anything can be a cell; no line ends in spaces."""
    text = align([["name", "n"], ["a", 10], ["longer", None]])
    assert text == "name    n\n------  ----\na       10\nlonger  None"
