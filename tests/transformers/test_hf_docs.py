"""What docs/transformers.md tells a reader to type works, with tiny networks."""

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from test_tracer import bart, collate, sentences
from transformers import TrainingArguments

from hf_tiny import FAMILIES, save_bert
from ktiwprobe.runs.listing import find_runs
from test_docs import DOCS, blocks, page, type_in


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KTIWPROBE_RUNS", raising=False)


def test_the_commands_of_the_page() -> None:
    """One after another in an empty folder, FOLDER being a BERT; every model has a line."""
    folder, text = save_bert(Path("bert"), words=("the", "a", "is")), page("transformers.md")
    commands = [line.partition("  #")[0] for line in blocks(text, "sh").splitlines() if line]
    assert len(commands) == 8
    for command in commands:
        assert type_in(command.replace("FOLDER", str(folder))), command
    assert [run.record.model for run in find_runs(Path("runs"))] == ["hf-seq2seq", "hf-classifier", "hf-masked-lm"]
    assert all(f"| `{name}` |" in text for name, _ in FAMILIES)


def test_the_python_of_the_page() -> None:
    """The Tracer's lines, with somebody's network, data and arguments, record a run."""
    options: dict[str, Any] = {"max_steps": 2, "report_to": [], "disable_tqdm": True, "use_cpu": True}
    arguments = TrainingArguments("out", save_strategy="no", logging_strategy="no", **options)
    rows = {"train_dataset": sentences(8), "eval_dataset": Dataset.from_list(sentences(4))}
    code = blocks(page("transformers.md"), "python")
    assert "range(200)" in code
    names = {"network": bart(), "arguments": arguments, "collate": collate, **rows}
    exec(compile(code.replace("range(200)", "range(4)"), str(DOCS / "transformers.md"), "exec"), names)
    assert names["tracer"].run.steps() == [0, 2]  # type: ignore[attr-defined]
