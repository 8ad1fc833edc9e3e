"""A finite corpus as one file and back: what a run keeps of sentences that no task could bring again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.corpus.corpus import Corpus
from ktiwprobe.corpus.ragged import Ragged
from ktiwprobe.corpus.split import Split
from ktiwprobe.corpus.tokens import TokenRoles
from ktiwprobe.errors import CorpusError, DamagedFileError
from ktiwprobe.files import storage

ARRAYS = ("x", "y", "links", "x_words", "y_words", "y_at")
TEXTS = ("x_text", "y_text")
LOST = "fields that its class adds are not saved with the run, only their hashes"
ROLES = ("source_roles", "target_roles")


@dataclass(frozen=True, eq=False)
class SavedCorpus(Corpus):
    """A corpus whose subclass had fields that its file does not hold: of those only their hashes are known."""

    hashes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of each split, in hexadecimal

    def further(self, split: str) -> list[bytes]:
        """The hashes as they were."""
        return [bytes.fromhex(text) for text in self.hashes[split]]


def save_corpus(corpus: Corpus, path: Path) -> None:
    """Write the finite splits of a corpus, with their words and what the ids mean."""
    arrays: dict[str, NDArray[Any]] = {}
    strings: dict[str, Any] = {"source_tokens": list(corpus.source_tokens)}
    if not corpus.joint:
        strings["target_tokens"] = list(corpus.target_tokens)
    for name in corpus.splits:
        split = corpus.split(name)
        for part in ARRAYS:
            if (rows := getattr(split, part)) is not None:
                arrays |= {f"{name}.{part}.values": rows.values, f"{name}.{part}.offsets": rows.offsets}
        strings |= {f"{name}.{text}": list(sentences) for text in TEXTS if (sentences := getattr(split, text))}
    arrays["strings"] = np.frombuffer(json.dumps(strings).encode(), np.uint8)
    about: dict[str, Any] = {
        "task": corpus.task,
        "kind": corpus.kind,
        "splits": sorted(corpus.splits),
        "notes": list(corpus.notes),
    }
    about |= {name: _plain(roles) for name in ROLES if (roles := getattr(corpus, name)) is not None}
    hashes = {name: [part.hex() for part in corpus.further(name)] for name in corpus.splits}
    if any(any(parts) for parts in hashes.values()):
        about |= {"hashes": hashes, "notes": [*corpus.notes, LOST]}
    storage.write_tensors(path, arrays, about)


def load_corpus(path: Path) -> Corpus:
    """What `save_corpus` wrote."""
    arrays, about = storage.read_numpy(path)
    try:
        strings = json.loads(arrays["strings"].tobytes())
        splits = {name: _split(name, arrays, strings) for name in about["splits"]}
        tokens = tuple(strings["source_tokens"])
        others = tuple(strings["target_tokens"]) if "target_tokens" in strings else tokens
        roles = {name: _roles(about[name]) for name in ROLES if name in about}
        hashes: dict[str, Any] = {"hashes": about["hashes"]} if "hashes" in about else {}
        cls = SavedCorpus if hashes else Corpus
        return cls(about["task"], about["kind"], splits, tokens, others, tuple(about["notes"]), **roles, **hashes)
    except (KeyError, ValueError) as error:
        raise DamagedFileError(f"{path} is damaged: it lacks {error}") from error


def _plain(roles: TokenRoles) -> dict[str, Any]:
    return {"no_word": list(roles.no_word), "unknown": list(roles.unknown), "spelling": roles.spelling}


def _roles(plain: Mapping[str, Any]) -> TokenRoles:
    return TokenRoles(tuple(plain["no_word"]), tuple(plain["unknown"]), plain["spelling"])


def _split(name: str, arrays: dict[str, NDArray[Any]], strings: dict[str, Any]) -> Split:
    parts: dict[str, Any] = {
        part: Ragged(arrays[f"{name}.{part}.values"], arrays[f"{name}.{part}.offsets"])
        for part in ARRAYS
        if f"{name}.{part}.values" in arrays
    }
    told = {text: strings.get(f"{name}.{text}") for text in TEXTS}
    texts: dict[str, Any] = {text: [tuple(words) for words in found] for text, found in told.items() if found}
    return Split(**parts, **texts)


def corpus_of(batch: Batch, *, task: str) -> Corpus:
    """A batch as a corpus whose tokens are numbers; with one output to each input it is classification."""
    if not len(batch.x):
        raise CorpusError("the batch to probe is empty: it needs at least one example")
    if more := [part.name for part in fields(batch) if part.name not in {own.name for own in fields(Batch)}]:
        raise CorpusError(
            f"the batch to probe is a {type(batch).__name__} with {', '.join(more)}, which would be lost: pass a "
            "Corpus whose split makes such batches"
        )
    _check_places(batch)
    rows = {
        side: [
            ids[real].tolist() for ids, real in zip(getattr(batch, side), getattr(batch, f"{side}_mask"), strict=True)
        ]
        for side in ("x", "y")
    }
    size = 1 + max(int(batch.x.max()), int(batch.y.max()))
    numbers = tuple(map(str, range(size)))
    kind: Any = "classification" if batch.y.shape[1] == 1 else "translation"
    return Corpus(task, kind, {"validation": Split.of(rows["x"], rows["y"])}, numbers, numbers)


def _check_places(batch: Batch) -> None:
    """Refuse outputs that do not count before outputs that do: without their places they would be taken for others."""
    before = (batch.y_mask.int().diff(dim=1) > 0).any(1)
    if before.any() and not (batch.y_mask.shape == batch.x_mask.shape and (batch.y_mask == batch.x_mask).all()):
        raise CorpusError(
            f"example {int(before.int().argmax())} of the batch to probe has outputs that do not count (y_mask) before "
            "ones that do: pass a Corpus of kind 'text' whose Split says with y_at which positions predict"
        )
