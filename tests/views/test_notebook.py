"""What notebooks show: escaped, compact, without colours of its own that a dark one could not bear."""

import re
from html import unescape

import pytest

from ktiwprobe import agree, extract
from ktiwprobe.errors import UsageError
from ktiwprobe.experiments import Report, Result
from ktiwprobe.runs.run import Run
from ktiwprobe.views import html
from ktiwprobe.views.tables import Table, agreement_table

HOSTILE = '<script>alert("x")</script>'


@pytest.fixture
def signals(tiny_run, tiny_registry):
    return [extract(tiny_run, probe, registry=tiny_registry, device="cpu") for probe in ("alpha", "beta", "delta")]


def test_a_view_is_the_viewer_of_that_sentence(signals, tiny_corpus):
    """A frame that holds the tokens of the sentence and of no other."""
    alpha, *others = signals
    shown = alpha.view(3, *others)._repr_html_()
    assert shown.startswith("<iframe")
    inside = unescape(re.search(r'srcdoc="(.*)"></iframe>', shown, re.S)[1])
    example = tiny_corpus.example("validation", 3)
    for token in (*example.source, *example.target):
        assert html.escape(token) in inside or token.replace("<", "\\u003c") in inside
    assert alpha.view(-17).html == alpha.view(3).html
    with pytest.raises(UsageError, match="0 to 19"):
        alpha.view(20)


def test_a_view_knows_the_links(signals, tiny_corpus):
    """A signal of a run carries those of its corpus; of one sentence, its own."""
    links = tiny_corpus.example("validation", 3).links
    assert (signals[0].links(3) == links).all()
    assert (signals[0].only(3).links(0) == links).all()


def test_agreements_and_tables(signals, tiny_registry):
    """Rounded values under their heads; the text says the same."""
    alpha, beta, _ = signals
    found = [agree(alpha, beta, metric, registry=tiny_registry) for metric in ("agreement", "kendall")]
    assert f"{found[0].value:.3f}" in found[0]._repr_html_()
    table = agreement_table(found)
    for text in (str(table), table._repr_html_()):
        assert all(f"{one.value:.3f}" in text and one.metric in text and one.u in text for one in found)
    assert table._repr_html_().count("<tr") == 3


def test_everything_is_escaped():
    """Names, tokens and cells are text."""
    result = Result(HOSTILE, None, [{HOSTILE: HOSTILE}], notes=[HOSTILE])
    report = Report("e", HOSTILE, "paper", "", "", "", 0.0, (0,), (), {}, result)
    pieces = [
        html.heading(HOSTILE, HOSTILE),
        html.pairs({HOSTILE: HOSTILE}),
        html.spark({0: 0.0, 1: 1.0}, HOSTILE),
        Table([{HOSTILE: HOSTILE}])._repr_html_(),
        report._repr_html_(),
    ]
    for piece in pieces:
        assert "<script" not in piece
        assert html.escape(HOSTILE) in piece


def test_text_has_the_notebooks_colours(signals, tiny_run):
    """No colour is set for text, and no ground but that of heatmap cells."""
    for piece in (tiny_run._repr_html_(), signals[0]._repr_html_(), Table([{"a": 1}])._repr_html_()):
        assert set(re.findall(r"(?<!-)color:([^;\"]+)", piece)) <= {"inherit"}
        assert all(g == "none" or g.startswith("rgb(") for g in re.findall(r"background:([^;\"]+)", piece))


def test_a_run_that_has_only_begun(tiny_run):
    """It says so."""
    (tiny_run.path / "log.jsonl").unlink()
    assert "no checkpoint is evaluated yet" in Run.open(tiny_run.path)._repr_html_()
