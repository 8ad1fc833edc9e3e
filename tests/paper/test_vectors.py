"""Word vectors from a file, as a start for the classifier."""

from __future__ import annotations

import gzip

import pytest
import torch

from ktiwprobe import build_registry, extract, train
from ktiwprobe.errors import OptionError
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe_paper.vectors import read_vectors


def lines_of(words, width):
    """A file's text: the vector of the n-th word is n, n, ..."""
    return "".join(f"{word} {' '.join([str(n)] * width)}\n" for n, word in enumerate(words))


def test_vectors_are_where_the_model_starts(tmp_path):
    """Known words start at their vectors, others where they would anyway; they learn, and probing needs no file."""
    file = tmp_path / "vectors.txt.gz"
    small = {"embedding": 8, "hidden": 8, "train": 40, "validation": 10, "test": 10, "steps": 2, "checkpoints": "0,2"}
    plain = train("lstm-classifier", options=small, runs=tmp_path / "plain", device="cpu")
    corpus = Extractor(plain, build_registry()).corpus
    known = corpus.source_tokens[10:20]
    file.write_bytes(gzip.compress(lines_of(["unheard", *known], 8).encode()))
    run = train("lstm-classifier", options={**small, "vectors": str(file)}, runs=tmp_path / "warm", device="cpu")
    before, after = (run.load_checkpoint(step)["embed.weight"] for step in (0, 2))
    assert torch.equal(before[10:20], torch.arange(1.0, 11.0).unsqueeze(1).expand(-1, 8))
    assert torch.equal(before[20:], plain.load_checkpoint(0)["embed.weight"][20:])
    assert not torch.equal(before[10:20], after[10:20])
    file.unlink()
    assert len(extract(run, "beta", at=2, registry=build_registry())) == 10


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (lines_of(["a", "b"], 5), r"line 1 has 5 numbers, embeddings are 8 wide: pass -o embedding=5"),
        (lines_of(["a"], 8) + "b 1 2\n", r"line 2 has 2 numbers, embeddings are 8 wide"),
        ("a,1,2,3\n", r"line 1 has 0 numbers, embeddings are 8 wide"),
        (lines_of(["a"], 8) + "b 1 2 3 4 5 6 7 x\n", r"line 2 is not a word and its numbers"),
        (lines_of(["y"], 8), "has a vector for none of the 2 words"),
        ("", "has a vector for none of the 2 words"),
        (b"a \xff\n", "cannot read word vectors from .*vectors.txt"),
        (None, "cannot read word vectors from .*: No such file"),
    ],
)
def test_a_file_of_vectors_that_is_none(tmp_path, text, sentence):
    """Wrong width, wrong format, another language, no text, no file: each a sentence."""
    file = tmp_path / "vectors.txt"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(OptionError, match=sentence):
        read_vectors(file, ["a", "b"], 8)


def test_bad_vectors_begin_no_run(tmp_path):
    """What cannot be is refused before a run is there."""
    with pytest.raises(OptionError, match="No such file"):
        train("lstm-classifier", options={"vectors": "nowhere.txt", "train": 40}, runs=tmp_path, device="cpu")
    assert not list(tmp_path.glob("*/*/run.json"))
