"""Files: whole or not there, equal bytes for equal contents, and no damage that goes unnoticed."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ktiwprobe.errors import DamagedFileError, RunError
from ktiwprobe.files import storage

META = {"step": 30, "note": "ü", "share": 0.1, "list": [1, None, True]}


def some_tensors() -> dict[str, torch.Tensor]:
    """Every kind of tensor that a state may hold."""
    base = torch.arange(6.0).reshape(2, 3)
    return {
        "plain": base,
        "shared": base,
        "view": base[:, 1],
        "turned": base.t(),
        "half": torch.tensor([1.5, -0.0, float("inf")], dtype=torch.bfloat16),
        "nan": torch.tensor([float("nan"), float("-inf")]),
        "scalar": torch.tensor(3, dtype=torch.int64),
        "empty": torch.zeros(0, 4),
        "mask": torch.tensor([True, False]),
        "bytes": torch.arange(5, dtype=torch.uint8),
        "learning": torch.nn.Parameter(torch.ones(2, dtype=torch.float64)),
    }


def same(a: Any, b: Any) -> bool:
    """Whether two tensors or arrays have the same type, shape and bits."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    return torch.equal(a.detach().contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A tensor file."""
    path = tmp_path / "a.safetensors"
    storage.write_tensors(path, {"w": torch.arange(6.0), "n": torch.tensor(3)}, META)
    return path


# round trips


def test_torch_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    """Every type and layout, memory shared or not, comes back as it was, with the JSON object beside it."""
    storage.write_tensors(tmp_path / "a", some_tensors(), META)
    found, meta = storage.read_torch(tmp_path / "a")
    assert meta == META
    assert found.keys() == some_tensors().keys()
    assert all(same(tensor, found[name]) for name, tensor in some_tensors().items())


def test_numpy_arrays_come_back_bit_for_bit(tmp_path: Path) -> None:
    """Arrays without dimensions, of other byte order or layout, and empty ones too."""
    arrays = {
        "scalar": np.array(2.5),
        "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "empty": np.zeros((0, 3), np.int64),
        "mask": np.array([True, False]),
        "nan": np.array([np.nan, -np.inf], np.float16),
    }
    storage.write_tensors(tmp_path / "a", {**arrays, "swapped": np.arange(3, dtype=">i4")}, {})
    found, meta = storage.read_numpy(tmp_path / "a")
    assert meta == {}
    assert found.pop("swapped").tolist() == [0, 1, 2]
    assert all(same(array, found[name]) for name, array in arrays.items())


def test_torch_and_numpy_read_each_others_files(tmp_path: Path) -> None:
    """One format, one checksum, two libraries."""
    storage.write_tensors(tmp_path / "t", {"a": torch.arange(3.0)}, META)
    storage.write_tensors(tmp_path / "n", {"a": np.arange(3, dtype=np.float32)}, META)
    assert (tmp_path / "t").read_bytes() == (tmp_path / "n").read_bytes()
    assert storage.read_numpy(tmp_path / "t")[0]["a"].tolist() == storage.read_torch(tmp_path / "n")[0]["a"].tolist()


def test_a_file_of_another_program_can_be_read(tmp_path: Path) -> None:
    """A safetensors file without our checksum is read as arrays, but never as a checkpoint."""
    from safetensors.numpy import save_file

    save_file({"values": np.arange(3)}, tmp_path / "a")
    assert storage.read_numpy(tmp_path / "a")[1] == {}
    for read in (storage.read_torch, storage.read_meta, storage.file_hash):
        with pytest.raises(DamagedFileError):
            read(tmp_path / "a")


def test_json_round_trip(tmp_path: Path) -> None:
    """JSON files are read back, and a damaged or missing one is a sentence."""
    path = tmp_path / "new" / "a.json"
    storage.write_json(path, META)
    assert storage.read_json(path) == META
    path.write_text(path.read_text()[:-5])
    with pytest.raises(DamagedFileError, match=r"a\.json is damaged: it is not JSON"):
        storage.read_json(path)
    with pytest.raises(RunError, match=r"cannot read .*No such file"):
        storage.read_json(tmp_path / "none.json")


# identity

WRITE = """
import sys, torch
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_storage import META, some_tensors
from ktiwprobe.files.storage import write_tensors
write_tensors(Path(sys.argv[1]), dict(reversed(some_tensors().items())), dict(reversed(META.items())))
"""


def test_equal_contents_give_equal_bytes_in_any_process(tmp_path: Path) -> None:
    """Neither the order of names nor the hash seed of a process shows in the file."""
    storage.write_tensors(tmp_path / "here", some_tensors(), META)
    command = [sys.executable, "-c", WRITE, str(tmp_path / "there"), str(Path(__file__).parent)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "1"})
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()


@pytest.mark.parametrize(
    "other",
    [
        ({"w": torch.arange(6.0), "n": torch.tensor(4)}, META),
        ({"w": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(3)}, META),
        ({"w": torch.arange(6.0).int(), "n": torch.tensor(3)}, META),
        ({"v": torch.arange(6.0), "n": torch.tensor(3)}, META),
        ({"w": torch.arange(6.0), "n": torch.tensor(3)}, {**META, "step": 31}),
        ({"w": torch.arange(6.0)}, META),
    ],
)
def test_the_hash_of_a_file_stands_for_all_of_it(file: Path, other: tuple[Any, Any]) -> None:
    """Values, shape, type, names and JSON all change the hash; writing the same again does not."""
    before = storage.file_hash(file)
    storage.write_tensors(file, *other)
    assert storage.file_hash(file) != before
    storage.write_tensors(file, {"n": torch.tensor(3), "w": torch.arange(6.0)}, META)
    assert storage.file_hash(file) == before


def test_meta_is_read_without_the_contents(file: Path) -> None:
    """The JSON object of a file that is not there is not called damaged."""
    assert storage.read_meta(file).items() >= META.items()
    for read in (storage.read_meta, storage.read_torch, storage.read_numpy):
        with pytest.raises(RunError, match="there is no") as caught:
            read(file.with_name("none"))
        assert not isinstance(caught.value, DamagedFileError)


# damage


def test_no_flipped_bit_goes_unnoticed(file: Path) -> None:
    """Whichever bit of the file is flipped, header included, reading it refuses, or nothing was changed by it."""
    tensors, meta = storage.read_torch(file)
    whole = file.read_bytes()
    unchanged = 0
    for position in range(len(whole)):
        for bit in (position % 8, (position + 5) % 8):
            broken = bytearray(whole)
            broken[position] ^= 1 << bit
            file.write_bytes(broken)
            try:
                found = storage.read_torch(file)
            except DamagedFileError as error:
                assert str(error).startswith(f"{file} is damaged")
                continue
            unchanged += 1
            assert found[1] == meta
            assert all(same(tensor, found[0][name]) for name, tensor in tensors.items())
    assert unchanged <= 2  # \u00fc may as well be written \u00FC


def test_a_flipped_bit_never_changes_what_an_array_file_says(file: Path) -> None:
    """As arrays, where a checksum is not demanded, a flip is refused or leaves every number as it was."""
    before, _ = storage.read_numpy(file)
    whole = file.read_bytes()
    harmless = 0
    for position in range(len(whole)):
        broken = bytearray(whole)
        broken[position] ^= 1 << position % 8
        file.write_bytes(broken)
        try:
            found, _ = storage.read_numpy(file)
        except DamagedFileError:
            continue
        harmless += 1
        assert all(same(array, found[name]) for name, array in before.items())
    assert harmless <= len("ktiwprobe") + len("checksum")  # a name of ours that is no longer recognised


def test_a_flipped_bit_in_the_description_is_read_or_refused(file: Path) -> None:
    """Reading the description alone never fails in any other way."""
    whole = file.read_bytes()
    for position in range(len(whole)):
        broken = bytearray(whole)
        broken[position] ^= 1 << position % 8
        file.write_bytes(broken)
        try:
            storage.file_hash(file)
        except DamagedFileError as error:
            assert str(file) in str(error)


def test_no_truncation_goes_unnoticed(file: Path) -> None:
    """Cut at any length, even to nothing, the file is refused by every reader."""
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        for read in (storage.read_torch, storage.read_numpy):
            with pytest.raises(DamagedFileError, match=str(file)):
                read(file)
        with pytest.raises(DamagedFileError, match=str(file)):
            storage.read_meta(file)


def test_a_file_that_is_something_else_is_refused(file: Path) -> None:
    """Neither more bytes at the end, nor text, nor a folder is a tensor file."""
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(DamagedFileError):
        storage.read_torch(file)
    file.write_text(json.dumps(META) * 5)
    with pytest.raises(DamagedFileError):
        storage.read_torch(file)
    with pytest.raises(DamagedFileError):
        storage.read_torch(file.parent)


# a full disk


def full(*_: object) -> None:
    """What the system says when nothing more fits."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullAfter(io.FileIO):
    """A file on a disk that has room for ten more bytes."""

    def write(self, content: Any, /) -> int:
        """Write what fits."""
        super().write(bytes(content)[:10])
        full()
        return 0


@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_whole(where: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever saving fails, the file before is intact, nothing half written stays, and one sentence says why."""
    before = file.read_bytes()
    with monkeypatch.context() as patch:
        if where == "write":
            patch.setattr(Path, "open", lambda path, mode: FullAfter(path, mode))
        elif where == "fsync":
            patch.setattr(os, "fsync", full)
        else:
            patch.setattr(Path, "replace", full)
        with pytest.raises(RunError, match=f"cannot write {file}: No space left on device") as caught:
            storage.write_tensors(file, {"w": torch.zeros(1000)}, {})
    assert "\n" not in str(caught.value)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_place_that_cannot_be_written_is_a_sentence(file: Path) -> None:
    """A parent that is a file, or a name too long for the system, are expected errors."""
    for path in (file / "b", file / "b" / "c", file.parent / ("x" * 300)):
        with pytest.raises(RunError, match="cannot write"):
            storage.write_bytes(path, b"")
    assert list(file.parent.iterdir()) == [file]


def test_leftovers_of_a_killed_writer_can_be_removed(file: Path) -> None:
    """Only half-written files go."""
    (file.parent / f".{file.name}.123.tmp").write_bytes(b"half")
    storage.remove_leftovers(file.parent)
    assert list(file.parent.iterdir()) == [file]
    storage.remove_leftovers(file.parent / "none")
