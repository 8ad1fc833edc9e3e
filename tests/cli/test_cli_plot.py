"""ktiwprobe plot"""

import pytest

from ktiwprobe.views.figures import KINDS

BEGINS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.fixture
def run(cli, installed_tiny, tiny_run):
    return tiny_run


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_in_every_format(cli, run, tmp_path, kind):
    """Each writes a file of its format and says where."""
    for ending, begin in BEGINS.items():
        out = f"new/{kind}.{ending}"
        assert cli("plot", kind, "--out", out).stdout == f"wrote {out}\n"
        assert (tmp_path / out).read_bytes().startswith(begin)


def test_without_out_it_is_a_png_here(cli, refusal, run, tmp_path):
    """Named after its kind; a second one needs --force."""
    cli("plot", "heatmap", "tiny-model-s0", "--sentence", "3", "--probe", "alpha,beta")
    assert "heatmap.png exists: write over it, or choose another file; add --force" in refusal("plot", "heatmap")
    assert cli("plot", "heatmap", "--force").stdout == "wrote heatmap.png\n"


def test_refusals(refusal, run, tmp_path):
    """Each is one sentence that says what to do; nothing is written."""
    assert "unknown figure 'matrix'" in refusal("plot", "matrix")
    assert "did you mean 'heatmap'" in refusal("plot", "heatmaps")
    assert "does not end in .png, .svg or .pdf" in refusal("plot", "curves", "--out", "a.jpg")
    assert "unknown run" in refusal("plot", "curves", "nothing")
    assert "unknown metric" in refusal("plot", "agreement-matrix", "--metric", "nothing")
    assert "unknown probe" in refusal("plot", "heatmap", "--probe", "nothing")
    (tmp_path / "file").touch()
    assert "cannot write file/a.png" in refusal("plot", "heatmap", "--out", "file/a.png", code=1)
    assert not list(tmp_path.glob("*.png"))


def test_no_runs(refusal):
    """The command that helps."""
    for kind in KINDS:
        assert "there are no runs in runs: train one with" in refusal("plot", kind, code=1)
