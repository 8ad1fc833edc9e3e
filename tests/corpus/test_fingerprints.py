"""Fingerprints: of ids alone as ever, and of all that a subclass carries."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ktiwprobe import Batch, Corpus, Split, build_registry
from ktiwprobe.corpus.saved import corpus_of, load_corpus, save_corpus
from ktiwprobe.data import Ragged, TokenRoles
from ktiwprobe.errors import CorpusError

RUNS = sorted((Path(__file__).parents[1] / "fixtures" / "runs-0.1.0" / "runs").glob("*/*/run.json"))


@dataclass(frozen=True, slots=True)
class Features(Batch):
    """A batch of vectors beside ids."""

    vectors: torch.Tensor = field(default_factory=lambda: torch.zeros(0))
    more: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class FeatureSplit(Split):
    """Examples with a vector each."""

    vectors: Any = None

    def batch(self, rows: Any) -> Batch:
        plain = super().batch(rows)
        parts = (plain.x, plain.x_mask, plain.x_lengths, plain.y, plain.y_mask)
        return Features(*parts, vectors=torch.as_tensor(self.vectors[rows]), more={"twice": plain.x * 2})


@dataclass(frozen=True, eq=False)
class Named(Corpus):
    """A corpus with anything more."""

    extra: Any = None

    @cached_property
    def slow(self) -> int:
        """Not carried: computed."""
        return 1


def corpus(split: Split | None = None, cls: Any = Corpus, **more: Any) -> Any:
    part = split or Split.of([[1, 2], [3]], [[0], [1]])
    return cls("t", "classification", {"validation": part}, tuple("abcd"), tuple("xy"), **more)


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.parent.parent.name)
def test_ids_alone_keep_their_fingerprint(path: Path) -> None:
    """Runs of 0.1.0 still know their corpora."""
    record = json.loads(path.read_text())
    task = build_registry().load("tasks", record["task"])
    made = task().load(task.Options(**record["options"]["task"]))
    assert {name: made.fingerprints[name] for name in record["corpus"]} == record["corpus"]


def test_there_are_runs_to_compare_with() -> None:
    """The fixtures are where the test above looks."""
    assert len(RUNS) >= 3


def test_a_subclass_without_more_is_the_same_corpus() -> None:
    """The name of a class is nothing that a model sees, and neither are roles and words."""
    plain = corpus().fingerprints
    assert corpus(cls=type("Other", (Corpus,), {})).fingerprints == plain
    assert corpus(source_roles=TokenRoles((0,))).fingerprints == plain


VALUES = (
    None, 1, 1.0, True, "1", b"1", (1, 2), [1, 2], {"a": 1}, {"a": 2}, {1, 2},
    np.arange(4), np.arange(4.0), np.arange(4).reshape(2, 2), np.float32(1),
    torch.arange(4), torch.arange(4, dtype=torch.int32), torch.ones(2, dtype=torch.bfloat16), torch.tensor(1.0),
    Ragged.of([[1], [2, 3]]), Ragged.of([[1, 2], [3]]), TokenRoles((1,)), TokenRoles((2,)),
)  # fmt: skip


def test_other_values_are_other_corpora() -> None:
    """No two of many kinds of values that a subclass may carry are taken for each other; equal ones are."""
    prints = [corpus(cls=Named, extra=value).fingerprints["validation"] for value in VALUES]
    assert len({*prints, corpus().fingerprints["validation"]}) == len(VALUES) + 1
    again = corpus(cls=Named, extra={"b": np.arange(3), "a": [torch.ones(2)]})
    same = corpus(cls=Named, extra={"a": [torch.ones(2)], "b": np.arange(3)})
    assert again.fingerprints == same.fingerprints


def test_what_is_computed_or_private_does_not_count() -> None:
    """Looking at a cached property, or keeping something under a private name, changes nothing."""
    made, other = corpus(cls=Named, extra=1), corpus(cls=Named, extra=1)
    assert other.slow == 1
    object.__setattr__(other, "_seen", object())
    assert other.fingerprints == made.fingerprints
    third = corpus(cls=Named, extra=1)
    object.__setattr__(third, "public", 5)
    assert third.fingerprints != made.fingerprints


@pytest.mark.parametrize("value", [object(), lambda: 1, np.array([object()]), [torch.nn.Linear(1, 1)]])
def test_what_cannot_be_hashed_is_refused_by_name(value: Any) -> None:
    """The sentence names the field and what it holds."""
    with pytest.raises(CorpusError, match=r"Named\.extra is a \w+, which cannot be part of a corpus's fingerprint"):
        _ = corpus(cls=Named, extra=value).fingerprints


def features(values: Any) -> FeatureSplit:
    return FeatureSplit(Ragged.of([[1, 2], [3]]), Ragged.of([[0], [1]]), vectors=values)


def test_other_features_of_the_same_ids_are_another_corpus() -> None:
    """They have another fingerprint; that no stored signal is read for them is in probes/test_extraction.py."""
    one, other = (corpus(features(np.full((2, 3), value))) for value in (0.0, 1.0))
    assert one.fingerprints != other.fingerprints != corpus().fingerprints
    assert one.fingerprints == corpus(features(np.zeros((2, 3)))).fingerprints


def test_a_batch_of_a_subclass_moves_whole() -> None:
    """Every tensor, in a mapping too, goes to the device; the lengths stay."""
    batch = features(np.ones((2, 3))).batch(np.array([0, 1])).to("meta")
    assert isinstance(batch, Features)
    assert {part.device.type for part in (batch.x, batch.y_mask, batch.vectors, batch.more["twice"])} == {"meta"}
    assert batch.x_lengths.device.type == "cpu"


def test_a_subset_keeps_its_features() -> None:
    """The rows of an array go with their examples; what has no row for each example must be handled by the class."""
    some = features(np.array([[1.0], [2.0]])).subset(np.array([1]))
    assert isinstance(some, FeatureSplit)
    assert some.vectors.tolist() == [[2.0]]
    with pytest.raises(CorpusError, match=r"FeatureSplit\.vectors does not have a row for each of 2 examples"):
        features(np.zeros(5)).subset(np.array([1]))


def test_features_are_not_lost_in_silence(tmp_path: Path) -> None:
    """A batch with more cannot be a probe set; a saved corpus keeps its fingerprint and says what it lacks."""
    made = corpus(features(np.ones((2, 3))))
    with pytest.raises(CorpusError, match="Features with vectors, more, which would be lost"):
        corpus_of(made.split("validation").batch(np.array([0])), task="t")
    save_corpus(made, tmp_path / "corpus.safetensors")
    again = load_corpus(tmp_path / "corpus.safetensors")
    assert again.fingerprints == made.fingerprints
    assert "not saved" in again.notes[-1]


def test_where_outputs_are_predicted_is_part_of_it() -> None:
    """The same ids with other places are other outputs, and links are not taken for places."""
    x, y = Ragged.of([[1, 2, 3, 1]]), Ragged.of([[2, 1]])
    splits = [Split(x, y), *(Split(x, y, y_at=Ragged.of([at])) for at in ([0, 3], [1, 3]))]
    made = [Corpus("t", "text", {"validation": s}, tuple("abcd"), tuple("abcd")) for s in splits]
    assert len({c.fingerprints["validation"] for c in made}) == 3
    assert replace(made[1], notes=("n",)).fingerprints == made[1].fingerprints
