"""The folder of data sets: chosen for a while, else by the environment."""

from pathlib import Path

from ktiwprobe.data import data_folder, data_in


def test_a_choice_holds_for_a_while(tmp_path, monkeypatch):
    """The innermost choice, then the environment, then none; no choice changes nothing."""
    monkeypatch.delenv("KTIWPROBE_DATA", raising=False)
    assert data_folder() is None
    monkeypatch.setenv("KTIWPROBE_DATA", "there")
    assert data_folder() == Path("there").absolute()
    with data_in(tmp_path), data_in(None):
        assert data_folder() == tmp_path
        with data_in(tmp_path / "inner"):
            assert data_folder() == tmp_path / "inner"
        assert data_folder() == tmp_path
    assert data_folder() == Path("there").absolute()
