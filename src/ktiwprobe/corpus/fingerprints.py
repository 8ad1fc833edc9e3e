"""Hashes of what a model can see, so that numbers of one corpus are never taken for those of another.

Ids alone are hashed as they always were; fields that a subclass adds, and `y_at`, extend the hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property
from pathlib import PurePath
from typing import Any

import numpy as np
from torch import Tensor, uint8

from ktiwprobe.corpus.ragged import Ragged
from ktiwprobe.errors import CorpusError

PLAIN = (bool, int, float, complex, str, bytes, PurePath)


def short_digest(parts: Iterable[bytes]) -> str:
    """16 hexadecimal digits that tell these parts, in this order, from any others."""
    return _digest(parts).hexdigest()[:16]


def digest_further(thing: Any, base: type) -> bytes:
    """A hash of what an object carries beyond the fields of its base class; empty if that is nothing.

    That is every field of a dataclass, and every attribute whose name does not begin with an underscore.
    """
    names = [name for name in _names(thing) if name not in {part.name for part in fields(base)}]
    parts = [name.encode() for name in names]
    parts += [_canonical(getattr(thing, name), f"{type(thing).__name__}.{name}") for name in names]
    return _digest(parts).digest() if names else b""


def _names(thing: Any) -> list[str]:
    """Fields and public attributes, but for values that were computed from them and kept."""
    cached = {name for cls in type(thing).__mro__ for name, value in vars(cls).items() if _is_cached(value)}
    attributes = {name for name in getattr(thing, "__dict__", {}) if not name.startswith("_")} - cached
    return sorted({part.name for part in fields(thing)} | attributes)


def _is_cached(value: Any) -> bool:
    return isinstance(value, cached_property)


def _canonical(value: Any, where: str) -> bytes:
    """Bytes that are equal for equal values only: the type, then the content."""
    return _digest([type(value).__name__.encode(), *_content(value, where)]).digest()


def _content(value: Any, where: str) -> Iterator[bytes]:
    if value is None:
        return
    if isinstance(value, Ragged):
        yield from (_canonical(part, where) for part in (value.values, value.offsets))
    elif isinstance(value, Tensor):
        flat = value.detach().cpu().contiguous().reshape(-1)
        yield from (str(value.dtype).encode(), str(tuple(value.shape)).encode(), flat.view(uint8).numpy().tobytes())
    elif isinstance(value, np.ndarray | np.generic) and value.dtype.kind != "O":
        yield from (value.dtype.str.encode(), str(value.shape).encode(), np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Enum):
        yield value.name.encode()
    elif isinstance(value, PLAIN):
        yield value if isinstance(value, bytes) else repr(value).encode()
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (_canonical((part.name, getattr(value, part.name)), where) for part in fields(value))
    elif isinstance(value, Mapping):
        yield from sorted(_canonical(pair, where) for pair in value.items())
    elif isinstance(value, Set):
        yield from sorted(_canonical(part, where) for part in value)
    elif isinstance(value, Sequence):
        yield from (_canonical(part, where) for part in value)
    else:
        raise CorpusError(
            f"{where} is a {type(value).__name__}, which cannot be part of a corpus's fingerprint: carry arrays, "
            "tensors, plain values, or lists and mappings of them"
        )


def _digest(parts: Iterable[bytes]) -> hashlib._Hash:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest
