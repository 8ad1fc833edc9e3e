"""--data: the folder of data sets, for a command and the workers of its sweep."""

import os

import pytest

from ktiwprobe.runs.listing import find_runs

READER = """
import tiny
from ktiwprobe.data import data_folder
from ktiwprobe.errors import CorpusError

class FromDisk(tiny.TinyTask):
    def load(self, options):
        if not (data_folder() / "from-disk").is_dir():
            raise CorpusError(f"from-disk is not in {data_folder()}")
        return super().load(options)

@hookimpl
def register_tasks(register):
    register("from-disk", FromDisk)
"""


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder with one data set; the environment names another folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KTIWPROBE_DATA", str(tmp_path / "elsewhere"))
    (tmp_path / "data" / "from-disk").mkdir(parents=True)
    return "data"


@pytest.mark.parametrize("words", [("train", "tiny-model"), ("sweep", "--model", "tiny-model", "--workers", "1")])
def test_data_reaches_tasks_and_workers(cli, stranger, installed_tiny, data, tmp_path, words):
    """--data wins over the environment, in this process and in workers, and leaves the environment alone."""
    stranger("reader", READER)
    cli(*words, "--task", "from-disk", "--data", data, "--steps", "2", "--quiet")
    assert len(find_runs(tmp_path / "runs")) == 1
    assert os.environ["KTIWPROBE_DATA"] == str(tmp_path / "elsewhere")


def test_data_is_for_one_command(cli, refusal, stranger, installed_tiny, data, tmp_path):
    """The next one looks where the environment says."""
    stranger("reader", READER)
    cli("data", "from-disk", "--data", data, code=2)
    assert f"from-disk is not in {tmp_path / 'elsewhere'}" in refusal(
        "train", "tiny-model", "--task", "from-disk", code=1
    )
