"""ktiwprobe new-plugin, and plugins as strangers install them: the generated one and the example"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "ktiwprobe-additive-gru"
FILES = {
    "README.md",
    "pyproject.toml",
    "src/ktiwprobe_my_model/__init__.py",
    "src/ktiwprobe_my_model/model.py",
    "src/ktiwprobe_my_model/plugin.py",
    "tests/test_model.py",
}


def test_a_plugin_is_written(cli, tmp_path):
    """new-plugin writes a whole package, with every blank filled in, and says what to type next."""
    said = cli("new-plugin", "my-model").stdout
    assert "pip install -e ./ktiwprobe-my-model && ktiwprobe check my-model" in said
    folder = tmp_path / "ktiwprobe-my-model"
    written = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert written.keys() == FILES
    assert not any("$" in text for text in written.values())
    assert "class MyModel(TorchModel)" in written["src/ktiwprobe_my_model/model.py"]


@pytest.mark.parametrize("name", ["trace", "batch", "torch-model", "model", "gpt-2"])
def test_an_awkward_name_makes_working_code(cli, tmp_path, monkeypatch, name):
    """A name that is also a name of ktiwprobe's does not hide it in the generated module."""
    cli("new-plugin", name)
    module = f"ktiwprobe_{name.replace('-', '_')}"
    monkeypatch.syspath_prepend(tmp_path / f"ktiwprobe-{name}" / "src")
    names: dict[str, object] = {}
    exec(f"from {module}.model import *", names)
    assert names["Trace"].__module__ == "ktiwprobe.plugins.protocols"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("My_Model", "use small letters, digits and dashes"),
        ("lstm-seq2seq", "is taken by plugin 'paper'"),
        ("paper", "there is a plugin 'paper' or a package ktiwprobe_paper already"),
        ("core", "there is a plugin 'core'"),
        ("there", "ktiwprobe-there exists already"),
    ],
)
def test_names_that_cannot_be(refusal, tmp_path, name, sentence):
    """A name that is malformed, taken, or already a folder is refused."""
    (tmp_path / "ktiwprobe-there").mkdir()
    assert sentence in refusal("new-plugin", name)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> dict[str, str]:
    """The environment of a user who has installed the example and a generated plugin."""
    folder = tmp_path_factory.mktemp("plugins")
    program = [sys.executable, "-c", "from ktiwprobe.cli import main; main()"]
    subprocess.run([*program, "new-plugin", "my-model"], cwd=folder, check=True, capture_output=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", folder / "site", EXAMPLE, folder / "ktiwprobe-my-model"], check=True)
    return {**os.environ, "PYTHONPATH": str(folder / "site"), "OMP_NUM_THREADS": "1"}


def use(site: dict[str, str], cwd: Path, *commands: str) -> list[str]:
    """What each command prints, one after another; one process for all, so that torch is imported once."""
    code = (
        "import sys\nfrom ktiwprobe.cli import main\nfor words in sys.argv[1:]:\n"
        "    main(words.split(), standalone_mode=False)\n    print('\\f', end='', flush=True)"
    )
    done = subprocess.run([sys.executable, "-c", code, *commands], cwd=cwd, env=site, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("\f")[:-1]


@pytest.mark.xdist_group("installed")
def test_the_example_is_used_through_the_command_line(site, tmp_path):
    """The installed example is listed, conforms, trains and is compared like any model."""
    listed, checked, trained, compared, gold = use(
        site,
        tmp_path,
        "ls models --json",
        "check additive-gru",
        "train additive-gru --steps 30 -o width=16 -o train=200 -o validation=40",
        "agree --u alpha --v beta --format json",
        "agree --u delta --v gold --metric aer --format json",
    )
    (entry,) = (entry for entry in json.loads(listed) if entry["name"] == "additive-gru")
    assert (entry["plugin"], entry["distribution"]) == ("additive-gru", "ktiwprobe-additive-gru")
    assert "additive-gru: all checks passed" in checked
    assert "next: ktiwprobe agree --u alpha --v beta" in trained
    assert 0 <= json.loads(compared)["value"] <= 1
    assert json.loads(gold)["v"] == "gold"


@pytest.mark.xdist_group("installed")
def test_a_generated_plugin_is_used_through_the_command_line(site, tmp_path):
    """What new-plugin wrote installs, conforms, trains under each attention, and is compared."""
    checked, *_, compared = use(
        site,
        tmp_path,
        "check my-model",
        "train my-model --steps 20",
        "train my-model --steps 20 --attention frozen-beta",
        "train my-model --steps 20 --attention uniform",
        "agree --u alpha --v beta-uf --format json",
    )
    assert "my-model: all checks passed" in checked
    assert json.loads(compared)["u"].startswith("toy-sentiment/my-model-s0:alpha@")


@pytest.mark.xdist_group("installed")
def test_the_example_is_short():
    """A model of one's own takes fewer than 45 lines."""
    model = EXAMPLE / "src" / "ktiwprobe_additive_gru" / "model.py"
    assert len(model.read_text().splitlines()) < 45
