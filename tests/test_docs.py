"""What docs/ tells a reader to type works: Python and shell blocks, in order, at a size that fits a test suite."""

import re
import shlex
from pathlib import Path

import pytest
from benchmarks.members import page_of
from click.testing import CliRunner

from ktiwprobe import AttentionModel, Model, Task, build_registry
from ktiwprobe.cli import built_in, main
from ktiwprobe.compare.linking import METHODS
from ktiwprobe.experiments import reproduce
from ktiwprobe.plugins.capabilities import members
from ktiwprobe.plugins.hookspecs import PROJECT
from ktiwprobe.plugins.registry import KINDS
from ktiwprobe.runs.listing import find_runs
from ktiwprobe.views import figures
from ktiwprobe_paper.text.parallel import FILES, SETS

DOCS = Path(__file__).parents[1] / "docs"
SIZES = {
    "lstm-seq2seq": ("hidden=16", "layers=1", "validation=20", "test=20"),
    "lstm-classifier": ("validation=20",),
    "hf-seq2seq": ("hidden=16", "heads=2", "validation=20", "test=20"),
    "hf-classifier": ("validation=20",),
    "hf-masked-lm": ("validation=20",),
}


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> str:
    """All code blocks of a language as one text; lines that are not code are left blank, so that numbers agree."""
    inside, lines = False, []
    for line in text.splitlines():
        opens = line.strip() == f"```{language}"
        inside = opens or (inside and not line.startswith("```"))
        lines.append(line if inside and not opens else "")
    return "\n".join(lines)


def type_in(command: str) -> str:
    """What a shell command prints, with few steps and a small model where it trains."""
    words = shlex.split(command, comments=True)
    assert words[0] == "ktiwprobe", command
    if words[1] == "train":
        words += ["--steps", "10", *(word for size in SIZES[words[2]] for word in ("-o", size))]
    done = CliRunner().invoke(main, words[1:], catch_exceptions=False)
    assert done.exit_code == 0, f"{command}: {done.stderr}"
    return done.stdout


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KTIWPROBE_RUNS", raising=False)


def test_plugins_page(capsys: pytest.CaptureFixture[str]) -> None:
    """The page's plugin registers through all hooks without a failure, passes the kit, trains and is compared."""
    names: dict[str, object] = {"__name__": "docs_plugins"}
    exec(compile(blocks(page("plugins.md"), "python"), str(DOCS / "plugins.md"), "exec"), names)
    registry = names["registry"]
    assert registry.failures == []  # type: ignore[attr-defined]
    for kind in KINDS:
        assert any(entry.owner.plugin == "mine" for entry in registry.entries[kind].values())  # type: ignore[attr-defined]
    assert 0 <= float(capsys.readouterr().out) <= 1


def test_plugins_page_has_everything() -> None:
    """Every hook, required member and environment variable is on the page, and its tables are those of the code."""
    text = page("plugins.md")
    assert page_of(text) == text, "run `make members`"
    required = (*members(Model), *members(AttentionModel), *members(Task))
    variables = ("KTIWPROBE_LOAD_PLUGINS", "KTIWPROBE_SKIP_PLUGINS", "KTIWPROBE_STRICT_PLUGINS", "KTIWPROBE_RUNS")
    hooks = [f"register_{kind.replace('-', '_')}" for kind in KINDS]
    for word in (*required, *variables, *hooks, f"entry-points.{PROJECT}"):
        assert word in text, word


def test_experiments_page() -> None:
    """The page's experiment runs in worker processes and answers; every experiment of ours has a line."""
    names: dict[str, object] = {"__name__": "docs_experiments"}
    exec(compile(blocks(page("experiments.md"), "python"), str(DOCS / "experiments.md"), "exec"), names)
    report = reproduce("wider", scale="small", registry=names["registry"])  # type: ignore[arg-type]
    assert report.result.verdict.startswith("Accuracy at step 20 is 0.")
    for name in build_registry().names("experiments"):
        assert f"| `{name}` |" in page("experiments.md"), name


def test_signals_page() -> None:
    """The page's files are read and compared with alpha, by Python and by the command."""
    code = blocks(page("signals.md"), "python")
    assert "steps=200" in code
    code = code.replace("steps=200", f"steps=10, options={dict(size.split('=') for size in SIZES['lstm-seq2seq'])}")
    exec(compile(code, str(DOCS / "signals.md"), "exec"), {})
    for command in filter(None, blocks(page("signals.md"), "sh").splitlines()):
        assert "diagonal.jsonl" in type_in(command)


def test_alignment_page() -> None:
    """The page's commands and Python work one after another; every method and option of parallel-text has a line."""
    text = page("alignment.md")
    for command in filter(None, blocks(text, "sh").splitlines()):
        type_in(command)
    exec(compile(blocks(text, "python"), str(DOCS / "alignment.md"), "exec"), {})
    assert Path("alpha.align").read_text().count("\n") == 20
    for name in (*METHODS, *FILES, *(f"`{pair}`" for pair in SETS)):
        assert name in text, name


def test_report_page() -> None:
    """The page's code makes a viewer, its command a report of the run that the code trained."""
    code = blocks(page("report.md"), "python")
    assert "steps=200" in code
    code = code.replace("steps=200", f"steps=10, options={dict(size.split('=') for size in SIZES['lstm-seq2seq'])}")
    exec(compile(code, str(DOCS / "report.md"), "exec"), {})
    for command in filter(None, blocks(page("report.md"), "sh").splitlines()):
        assert type_in(command).startswith("story.html: toy-translation")


def test_cli_page() -> None:
    """The page's commands work one after another, and every command has a section."""
    text = page("cli.md")
    assert re.findall(r"^## ([a-z-]+)$", text, re.M) == list(built_in())
    for command in filter(None, blocks(text, "sh").splitlines()):
        (name, *_) = [run.path.name for run in find_runs(Path("runs")) if run.path.name.endswith("-s0")] or ["none"]
        assert type_in(command.replace("lstm-seq2seq-s0", name))


def test_figures_page() -> None:
    """The page's Python draws and writes, and every kind of figure is on it, as every picture is there."""
    text = page("figures.md")
    for seed in (0, 1):
        type_in(f"ktiwprobe train lstm-seq2seq --seed {seed}")
    exec(compile(blocks(text, "python"), str(DOCS / "figures.md"), "exec"), {})
    assert Path("mine.pdf").read_bytes().startswith(b"%PDF")
    assert all(f"`ktiwprobe plot {kind}`" in text for kind in figures.KINDS)
    assert all((DOCS / name).exists() for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text))
