"""A plugin and a script written for version 0.1 still work, and are told where names are now."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType

import pytest

import ktiwprobe
from ktiwprobe import aliases, build_registry, train
from ktiwprobe.plugins.registry import Registry

PLUGIN = '''
import torch
from ktiwprobe.hookspecs import hookimpl
from ktiwprobe.probes import log_odds
from ktiwprobe.metrics import Agreement

@torch.no_grad()
def kept(model, batch):
    """Log-odds of the output under the model's own attention, for every input."""
    return log_odds(model.trace(batch), batch).unsqueeze(-1).expand(-1, -1, batch.x.shape[1]) - batch.x.unsqueeze(1)

kept.pooling = ("sum", "mean")

class Strict(Agreement):
    pass

@hookimpl
def register_probes(register):
    register("kept", kept, summary="log-odds as they are")

@hookimpl
def register_metrics(register):
    register("strict", Strict(share=0.01))
'''
SCRIPT = """
from ktiwprobe.address import Finder
from ktiwprobe.agreement import add_up
from ktiwprobe.alignment import Aligner, score
from ktiwprobe.cli.progress import make_progress
from ktiwprobe.extraction import Extractor
from ktiwprobe.figures import Request, draw
from ktiwprobe.report import collect, render, viewer_html
from ktiwprobe.run import find_run, runs_folder
from ktiwprobe.sweep import Job
from ktiwprobe.tables import Table, agreement_table, show_agreement
"""


def test_a_plugin_of_version_0_1_works(run_tiny, tiny_registry: Registry, tmp_path: Path) -> None:
    """Its old imports warn and name the new home; what it brings is used as before."""
    module = ModuleType("old_plugin")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(PLUGIN, "old_plugin.py", "exec"), module.__dict__)
    message = "ktiwprobe.probes.log_odds has moved: import it from ktiwprobe.models.scoring"
    assert message in {str(warning.message) for warning in caught}
    import tiny

    registry = build_registry({"tiny": tiny, "old": module})
    assert not registry.failures
    run = train("tiny-model", steps=2, runs=tmp_path / "old", registry=registry, device="cpu")
    result = ktiwprobe.agree("alpha", "kept", "strict", runs=tmp_path / "old", registry=registry, device="cpu")
    assert result.rows > 0
    assert registry.quantity("kept").pooling == ("sum", "mean")
    with pytest.warns(DeprecationWarning, match=r"write record\.task instead"):
        assert run.record["task"] == run.record.task


def test_the_documented_imports_of_version_0_1_work() -> None:
    """Every module that docs, examples and the template used is there; the warning points at the line that imports."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(SCRIPT, "script.py", "exec"), {"__name__": "script"})
    assert {Path(str(warning.filename)).name for warning in caught} == {"script.py"}
    assert len({str(warning.message) for warning in caught}) == SCRIPT.count(",") + SCRIPT.count(" import ")


def test_every_alias_leads_somewhere() -> None:
    """No old module points at one that is gone, and what never was is an AttributeError as usual."""
    for old, homes in aliases.MOVED.items():
        for home in homes:
            __import__(f"ktiwprobe.{home}")
        with pytest.raises(AttributeError, match=f"module 'ktiwprobe.{old}' has no attribute 'nothing'"):
            aliases.old_name(old, "nothing")
    with pytest.raises(ModuleNotFoundError):
        __import__("ktiwprobe.never_there")
