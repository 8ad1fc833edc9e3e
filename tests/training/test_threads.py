"""Who sets GOMP_SPINCOUNT: whoever is about to import torch to compute, never `import ktiwprobe`."""

import os
import subprocess
import sys

from ktiwprobe.training.engines import make_engine
from ktiwprobe.training.threads import spin_briefly

VARIABLE = "GOMP_SPINCOUNT"
SHOW = "import os, sys; print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"


def shown(code):
    """What a new process has after `code`: the variable, and whether torch is imported."""
    env = {key: value for key, value in os.environ.items() if key != VARIABLE}
    command = [sys.executable, "-c", f"{code}\n{SHOW}"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return tuple(done.stdout.split()[-2:])


def test_importing_ktiwprobe_sets_nothing():
    """Nor do the names that a plugin's hook module, or a reader of signals, needs."""
    code = "import os\nbefore = dict(os.environ)\nfrom ktiwprobe import KtiwprobeError, Run, Signal, hookimpl, option\n"
    assert shown(f"{code}assert dict(os.environ) == before") == ("None", "False")


def test_train_sets_it_before_torch_is_imported():
    """Also if a name that needs torch is imported before it."""
    assert shown("from ktiwprobe import Corpus, Split, train") == ("10000", "True")


def test_what_the_user_set_stays(monkeypatch):
    """And once torch is imported nothing is set, as nothing would read it."""
    monkeypatch.delenv(VARIABLE, raising=False)
    spin_briefly()
    assert VARIABLE not in os.environ
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setenv(VARIABLE, "7")
    spin_briefly()
    assert os.environ[VARIABLE] == "7"


def test_the_command_line_sets_it():
    """Before any command, and so before torch."""
    code = "from ktiwprobe.cli import main\nmain(['rm', '--help'], standalone_mode=False)"
    assert shown(code) == ("10000", "False")


def test_workers_set_it(monkeypatch):
    """Whatever the parent has."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with make_engine("local", workers=1) as engine:
        assert engine.submit(os.getenv, VARIABLE).result(60) == "10000"
    assert VARIABLE not in os.environ
