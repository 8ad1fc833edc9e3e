"""A finite corpus as one file and back: what a run keeps of sentences that no task could bring again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ktiwprobe import storage
from ktiwprobe.data import Batch, Corpus, Ragged, Split
from ktiwprobe.errors import CorpusError, DamagedFileError

ARRAYS = ("x", "y", "links", "x_words", "y_words")
TEXTS = ("x_text", "y_text")


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
    about = {"task": corpus.task, "kind": corpus.kind, "splits": sorted(corpus.splits), "notes": list(corpus.notes)}
    storage.write_tensors(path, arrays, about)


def load_corpus(path: Path) -> Corpus:
    """What `save_corpus` wrote."""
    arrays, about = storage.read_numpy(path)
    try:
        strings = json.loads(arrays["strings"].tobytes())
        splits = {name: _split(name, arrays, strings) for name in about["splits"]}
        tokens = tuple(strings["source_tokens"])
        others = tuple(strings["target_tokens"]) if "target_tokens" in strings else tokens
        return Corpus(about["task"], about["kind"], splits, tokens, others, tuple(about["notes"]))
    except (KeyError, ValueError) as error:
        raise DamagedFileError(f"{path} is damaged: it lacks {error}") from error


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
