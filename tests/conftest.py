"""Fixtures that tests share; the tiny plugin itself is tests/tiny.py.

tiny_registry   a registry with the built-in plugins and `tiny`: tiny-task, tiny-stream; tiny-model, tiny-count
tiny_run        a finished run of tiny-model on tiny-task, seed 0, 30 steps, checkpoints at 0, 10, 20, 30; a copy of its
                own for each test, in the folder `tmp_path / "runs"` (pass that as `runs=`), so it may be damaged
tiny_corpus     the corpus of tiny-task
run_tiny        trains tiny-model below tmp_path, as it is told
data_folder     a folder of tiny data sets in the layout of the real ones, and a cache of its own, for this process
old_runs        a copy of the runs that version 0.1.0 wrote (tests/fixtures/runs-0.1.0), their paths filled in
installed_tiny  tests/tiny.py as an installed plugin, for this process and those it starts
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

import texts
import tiny
from ktiwprobe import Corpus, Run, build_registry, train
from ktiwprobe.plugins.registry import Registry

torch.set_num_threads(1)
settings.register_profile("here", deadline=None, database=None, derandomize=True)  # the same examples every time
settings.load_profile("here")


@pytest.fixture(scope="session")
def tiny_registry() -> Registry:
    """The built-in plugins and the tiny one."""
    return build_registry(extra={"tiny": tiny})


@pytest.fixture(scope="session")
def tiny_corpus() -> Corpus:
    """What tiny-task loads by default."""
    return tiny.TinyTask().load(tiny.TinyTask.Options())


@pytest.fixture(scope="session")
def _trained(tiny_registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train("tiny-model", runs=tmp_path_factory.mktemp("trained"), registry=tiny_registry, device="cpu")


@pytest.fixture
def tiny_run(_trained: Run, tmp_path: Path) -> Run:
    """A finished run that the test may do anything to."""
    here = tmp_path / "runs" / _trained.path.parent.name / _trained.path.name
    shutil.copytree(_trained.path, here)
    return Run.open(here)


@pytest.fixture
def run_tiny(tiny_registry: Registry, tmp_path: Path) -> Callable[..., Run]:
    """`ktiwprobe.train` of tiny-model into `tmp_path / "runs"`, on the CPU; every argument may be given otherwise."""

    def go(model: str = "tiny-model", task: str | None = None, *, runs: str = "runs", **wishes: Any) -> Run:
        settled: dict[str, Any] = {"runs": tmp_path / runs, "registry": tiny_registry, "device": "cpu"}
        return train(model, task, **{**settled, **wishes})

    return go


@pytest.fixture
def installed_tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry point that any process with this one's path finds."""
    tiny.install(tmp_path / "site", "tiny", "tiny")
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.fixture(scope="session")
def _data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return texts.make_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def data_folder(_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tasks look for data sets."""
    monkeypatch.setenv("KTIWPROBE_DATA", str(_data))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return _data


@pytest.fixture
def old_runs(tmp_path: Path) -> Path:
    """Runs of version 0.1.0, which the test may do anything to."""
    folder = tmp_path / "runs-0.1.0"
    shutil.copytree(Path(__file__).parent / "fixtures" / "runs-0.1.0", folder)
    for record in folder.glob("runs/*/*/run.json"):
        record.write_text(record.read_text().replace("{FIXTURES}", str(folder)))
    return folder / "runs"
