"""Files that are either whole or not there: atomic writes, and tensor files that notice a flipped bit.

A tensor file is an ordinary safetensors file. Its metadata holds one key (several would be written in random order, and
equal contents must give equal bytes) with a JSON object that includes a checksum of the contents. Never pickle.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors import numpy as numpy_format

from ktiwprobe.errors import DamagedFileError, RunBusyError, RunError, UsageError

META = "ktiwprobe"


def write_bytes(path: Path, content: bytes) -> None:
    """Put `content` at `path` so that a crash at any moment leaves the old file or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise RunError(f"cannot write {path}: {error.strerror or error}; what was saved before is intact") from error


def check_output(path: Path, *, force: bool = False) -> Path:
    """Refuse what could not be written there, before an hour is spent on what to write."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: give the name of a file", hint="out")
    if path.exists() and not force:
        raise UsageError(f"{path} exists: write over it, or choose another file", hint="force=True or out")
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise RunError(f"cannot write {path}: {above} is not a folder that can be written to", hint="out")
    return path


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed writer left half written in `folder`; for whoever holds the lock."""
    for file in folder.glob(".*.tmp"):
        file.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """A JSON file for people and programs."""
    write_bytes(path, (json.dumps(value, indent=2) + "\n").encode())


def read_json(path: Path) -> Any:
    """What `write_json` wrote."""
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise DamagedFileError(f"{path} is damaged: it is not JSON ({error})") from error


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    """Add a line to a file of JSON lines; on the disk when this returns."""
    try:
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}") from error


def read_lines(path: Path) -> list[Any]:
    """The records of a file of JSON lines, if it is there; a line cut short by a crash is left out."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error
    records = []
    for line in lines:
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    return records


@contextlib.contextmanager
def locked(folder: Path, busy: str) -> Iterator[None]:
    """Hold `folder` against other processes, or say `busy`; the system lets go if this process dies."""
    import filelock

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / ".lock", timeout=0)
        lock.acquire()
    except filelock.Timeout:
        raise RunBusyError(busy, hint="name") from None
    except OSError as error:
        raise RunError(f"cannot write to {folder}: {error.strerror}; choose another folder", hint="runs") from error
    try:
        yield
    finally:
        lock.release()


def write_tensors(path: Path, tensors: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
    """Torch tensors, or numpy arrays, by name, with a JSON object beside them."""
    plain = {name: _plain(tensor) for name, tensor in sorted(tensors.items())}
    header = {META: json.dumps({**meta, "checksum": _checksum(plain, meta)}, sort_keys=True)}
    write_bytes(path, _format(plain).save(plain, header))


def read_numpy(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays of a file and its JSON object, checked; a file of another program may have no checksum."""
    return _read(path, "numpy", foreign=True)


def read_torch(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same as torch tensors on the CPU, of our own files only."""
    return _read(path, "pt", foreign=False)


def read_meta(path: Path) -> dict[str, Any]:
    """The JSON object alone, with the checksum; read without the contents (and so unchecked)."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            meta = _json_of(file.metadata(), path)
    except FileNotFoundError as error:
        raise RunError(f"there is no {path}") from error
    except (OSError, safetensors.SafetensorError) as error:
        raise DamagedFileError(f"{path} is damaged: {error}") from error
    if "checksum" not in meta:
        raise DamagedFileError(f"{path} is damaged: it has no checksum")
    return meta


def hash_of(tensors: Mapping[str, Any]) -> str:
    """What identifies tensors that are not written."""
    return _checksum({name: _plain(tensor) for name, tensor in tensors.items()}, {})


def _read(path: Path, framework: str, *, foreign: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        with safetensors.safe_open(path, framework=framework) as file:
            meta = _json_of(file.metadata(), path)
            tensors = {name: _own(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118  (no mapping)
    except FileNotFoundError as error:
        raise RunError(f"there is no {path}") from error
    except (OSError, safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DamagedFileError(f"{path} is damaged: it cannot be read ({error})") from error
    checksum = meta.pop("checksum", None)
    if (checksum or not foreign) and checksum != _checksum(tensors, meta):
        raise DamagedFileError(f"{path} is damaged: its contents do not match their checksum")
    return tensors, meta


def _own(tensor: Any) -> Any:
    """In memory of its own: torch tensors are mapped from the file, which may be replaced; numpy arrays are copies."""
    return tensor if isinstance(tensor, np.ndarray) else tensor.clone()


def _json_of(metadata: Mapping[str, str] | None, path: Path) -> dict[str, Any]:
    try:
        meta = json.loads((metadata or {}).get(META, "{}"))
    except ValueError as error:
        raise DamagedFileError(f"{path} is damaged: its description is not JSON") from error
    return meta if isinstance(meta, dict) else {}


def _plain(tensor: Any) -> Any:
    """Contiguous, on the CPU, sharing memory with nothing: what safetensors asks for."""
    if isinstance(tensor, np.ndarray):
        return np.asarray(tensor, tensor.dtype.newbyteorder("="), order="C")
    return tensor.detach().cpu().contiguous().clone()


def _format(tensors: Mapping[str, Any]) -> Any:
    if all(isinstance(tensor, np.ndarray) for tensor in tensors.values()):
        return numpy_format
    from safetensors import torch as torch_format

    return torch_format


def _checksum(tensors: Mapping[str, Any], meta: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        kind = str(tensor.dtype).removeprefix("torch.")
        digest.update(json.dumps([name, kind, list(tensor.shape)]).encode())
        digest.update(_words(tensor))
    return digest.hexdigest()


def _words(tensor: Any) -> Any:
    """The bytes of a contiguous tensor, not copied."""
    if isinstance(tensor, np.ndarray):
        return tensor.reshape(-1).view(np.uint8)
    import torch

    return tensor.reshape(-1).view(torch.uint8).numpy()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
