"""Tiny data sets in the layout that the text tasks read, made of invented sentences."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
from pathlib import Path

import numpy as np

SIZES = {"train": 60, "validation": 20, "test": 25, "test2016_flickr": 20, "train_subset": 60}
NOUNS, VERBS = ("cat", "dog", "bird", "fish", "girl"), ("sees", "likes", "finds", "eats")
TONES = ("bad", "good")


def sentences(rng: np.random.Generator, count: int) -> list[tuple[str, str, int]]:
    """A sentence, its translation (each word backwards) and a label that one word decides."""
    made = []
    for _ in range(count):
        label = int(rng.integers(2))
        words = ["the", TONES[label], str(rng.choice(NOUNS)), str(rng.choice(VERBS)), "a", str(rng.choice(NOUNS))]
        made.append((" ".join(words), " ".join(word[::-1] for word in words), label))
    return made


def write_table(path: Path, rows: list[dict[str, object]]) -> None:
    """As the ending says: .tsv, .csv or .jsonl, and .xz or .gz after it."""
    text = io.StringIO()
    kind = next(part for part in path.suffixes if part in (".tsv", ".csv", ".jsonl"))
    if kind == ".jsonl":
        text.write("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == ".csv":
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    else:
        text.write("".join("\t".join(map(str, line)) + "\n" for line in (rows[0], *(row.values() for row in rows))))
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.getvalue().encode()
    path.write_bytes({".xz": lzma.compress, ".gz": gzip.compress}.get(path.suffix, bytes)(content))


LABELLED = [
    ("imdb", "label", (0, 1), ("train.tsv.xz", "test.tsv.xz")),
    ("ag-news", "label", (0, 2), ("train.csv", "validation.csv", "test.csv.gz")),
    ("20ng", "label", (0, 1), ("train.jsonl.xz", "test.jsonl")),
    ("sst", "label5", (1, 4), ("train.tsv", "validation.tsv", "test.tsv")),
    ("amazon", "label", (0, 1), ("train.tsv", "validation.tsv", "test.tsv")),
    ("yelp", "stars", (2, 5), ("train.tsv", "test.tsv")),
    ("sms", "label", (0, 1), ("train.tsv", "validation.tsv", "test.tsv")),
]
PARALLEL = [
    ("multi30k", ("en", "de"), ("train.tsv.xz", "validation.tsv.xz", "test2016_flickr.tsv")),
    ("iwslt14", ("de", "en"), ("train_subset.tsv", "validation.tsv", "test.tsv")),
    *((f"news-commentary-{a}-{b}", (a, b), ("train.tsv",)) for a, b in (("en", "nl"), ("en", "pt"), ("it", "pt"))),
]


GOLD = {"de-en_europarl_rwth508": 9, "en-fr_hansards447": 12, "en-es_xlwa_dev": 4, "en-es_xlwa_test": 5}
BESIDE_GOLD = [("europarl-de-en", ("de", "en")), ("tatoeba-en-es", ("en", "es"))]


def make_gold(folder: Path, rng: np.random.Generator) -> None:
    """Sentences aligned word by word, and text to train on."""
    for stem, size in GOLD.items():
        made = [(x.split(), y.split()) for x, y, _ in sentences(rng, size)]
        links = [[i, i] for i in range(6)]
        rows = [{"src": x, "tgt": y, "sure": links, "possible": []} for x, y in made]
        write_table(folder / "alignment-gold" / f"{stem}.jsonl.xz", rows)
    for name, (one, other) in BESIDE_GOLD:
        for split, size in (("train", 40), ("validation", 8)):
            rows = [{one: x, other: y} for x, y, _ in sentences(rng, size)]
            write_table(folder / name / f"{split}.tsv.xz", rows)


def make_data(folder: Path) -> Path:
    """All of them."""
    rng = np.random.default_rng(0)
    for name, label, values, files in LABELLED:
        for file in files:
            made = sentences(rng, SIZES[file.partition(".")[0]])
            rows = [{"id": i, label: values[y], "text": x} for i, (x, _, y) in enumerate(made)]
            write_table(folder / name / file, rows)
    for split in ("train", "test"):  # as the datasets library reads a folder
        made = sentences(rng, SIZES[split])
        write_table(folder / "20ng-plain" / f"{split}.jsonl", [{"text": x, "label": y} for x, _, y in made])
    for name, (one, other), files in PARALLEL:
        for file in files:
            made = sentences(rng, SIZES[file.partition(".")[0]])
            write_table(folder / name / file, [{"id": i, one: x, other: y} for i, (x, y, _) in enumerate(made)])
    make_gold(folder, rng)
    return folder
