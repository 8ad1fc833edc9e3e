"""Tokenised corpora on the disk: made once, then memory-mapped by every run that reads the same files the same way."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ktiwprobe import Corpus, Split
from ktiwprobe.corpus.tokens import usual_roles
from ktiwprobe.data import Lazy, Ragged
from ktiwprobe.errors import CorpusError
from ktiwprobe_paper.text.sources import cache_folder

VERSION = 3  # of how text becomes ids and words: a change here makes every corpus anew


def cached_corpus(task: str, options: Mapping[str, Any], files: Iterable[Path], make: Callable[[], Corpus]) -> Corpus:
    """The corpus that `make` makes of `files` under `options`; from the cache if it was made before."""
    import filelock

    folder = cache_folder() / "corpora" / f"{task}-{_key(task, options, files)}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder.with_suffix(".lock")):
            if not (folder / "corpus.json").exists():
                _save(make(), folder)
        return _load(folder)
    except OSError as error:
        raise CorpusError(
            f"cannot keep the tokenised corpus in {folder.parent}: {error.strerror or error}; free some space, or set "
            "XDG_CACHE_HOME to another folder"
        ) from error


def _key(task: str, options: Mapping[str, Any], files: Iterable[Path]) -> str:
    digest = hashlib.sha256(json.dumps([VERSION, task, dict(options)], sort_keys=True).encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _save(corpus: Corpus, folder: Path) -> None:
    """Arrow files, then a description that says that all is there."""
    import pyarrow as pa

    half = folder.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    for name, split in corpus.splits.items():
        if isinstance(split, Split):
            table = pa.table(_columns(split))
            with pa.OSFile(str(half / f"{name}.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
    about = {
        "kind": corpus.kind,
        "splits": list(corpus.splits),
        "source_tokens": list(corpus.source_tokens),
        "target_tokens": None if corpus.joint else list(corpus.target_tokens),
        "notes": list(corpus.notes),
        "spelling": None if corpus.target_roles is None else corpus.target_roles.spelling,
        "task": corpus.task,
    }
    (half / "corpus.json").write_text(json.dumps(about), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    half.rename(folder)


def _load(folder: Path) -> Corpus:
    import pyarrow as pa

    about = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
    splits = {}
    for name in about["splits"]:
        table = pa.ipc.open_file(pa.memory_map(str(folder / f"{name}.arrow"))).read_all()
        splits[name] = Split(**{column: _part(column, table.column(column)) for column in table.column_names})
    source = tuple(about["source_tokens"])
    target = source if about["target_tokens"] is None else tuple(about["target_tokens"])
    roles: dict[str, Any] = {}
    if spelling := about.get("spelling"):  # older caches do not say
        both = replace(usual_roles(target), spelling=spelling)
        roles = {"source_roles": both, "target_roles": both}
    return Corpus(about["task"], about["kind"], splits, source, target, tuple(about["notes"]), **roles)


NUMBERS, TEXTS = ("x", "y", "links", "x_words", "y_words"), ("x_text", "y_text")


def _columns(split: Split) -> dict[str, Any]:
    """What is known of a split, as Arrow columns of lists."""
    import pyarrow as pa

    columns = {}
    for name in NUMBERS:
        if (rows := getattr(split, name)) is not None:
            each = int(np.prod(rows.values.shape[1:]))  # a link is three numbers
            columns[name] = pa.LargeListArray.from_arrays(rows.offsets * each, rows.values.reshape(-1))
    for name in TEXTS:
        if (text := getattr(split, name)) is not None:
            columns[name] = pa.array(iter(text), pa.large_list(pa.large_string()), size=len(text))
    return columns


def _part(name: str, column: Any) -> Any:
    """A column of lists as it lies in the file."""
    (lists,) = column.chunks if column.num_chunks == 1 else (column.combine_chunks(),)
    if name in TEXTS:
        return Lazy(lists, lambda words: words.as_py())
    offsets = np.asarray(lists.offsets.to_numpy(), np.int64)
    values = lists.values.to_numpy()[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    return Ragged(values.reshape(-1, 3), offsets // 3) if name == "links" else Ragged(values, offsets)
