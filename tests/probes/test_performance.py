"""How well a run does: on other splits than the log's, and by BLEU, measured from checkpoints and kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ktiwprobe import Corpus, Run, Split, agree, train
from ktiwprobe.data import EOS, TokenRoles
from ktiwprobe.errors import UnknownNameError, UsageError
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.probes.performance import Performance, _references, score_bleu, spell
from ktiwprobe.training.loop import evaluate

SMALL = {"hidden": 16, "layers": 1, "steps": 20, "train": 60, "task.validation": 15, "test": 10, "batch": 16}


@pytest.fixture
def over(tiny_run: Run, tiny_registry: Registry):
    """The tiny run over a split."""
    return lambda split: Extractor(tiny_run, tiny_registry, split=split, device="cpu")


@pytest.fixture
def translator(tmp_path: Path) -> Extractor:
    run = train("lstm-seq2seq", runs=tmp_path / "runs", options=SMALL, device="cpu")
    return Extractor(run, build_registry(), device="cpu")


def test_on_validation_the_log_answers(over, tiny_run):
    """Nothing is computed or written for what training has evaluated."""
    assert Performance(over("validation"), "loss").curve() == tiny_run.performance("loss")
    assert Performance(over("validation")).best_step() == tiny_run.best_step()
    assert not (tiny_run.path / "performance").exists()


def test_on_other_splits_the_model_is_asked(over, tiny_run):
    """The value is that of the model over those very examples, at every checkpoint."""
    extractor = over("train")
    found = Performance(extractor, "accuracy").curve()
    assert list(found) == tiny_run.steps()
    for step, value in found.items():
        assert value == evaluate(extractor.model(step), list(extractor.batches()))["accuracy"]
    assert len(extractor.part) == 20  # as many as validation has, of 40


def test_what_was_measured_is_kept_while_it_is_true(over, tiny_run):
    """A second look writes nothing; another checkpoint under the same name, or a damaged file, is measured anew."""
    measured = Performance(over("train"), "accuracy")
    before = measured.at(30)
    path = tiny_run.performance_path("train", 30, "likelihood")
    written = path.stat().st_mtime_ns
    assert measured.at(30) == before
    assert path.stat().st_mtime_ns == written
    path.write_text("{")
    assert measured.at(30) == before
    tiny_run.save_checkpoint(30, {name: value * 0 for name, value in tiny_run.load_checkpoint(30).items()})
    assert Performance(over("train"), "loss").at(30) == pytest.approx(torch.tensor(12.0).log().item())


def test_the_best_follows_the_split_but_not_to_the_test(over, tiny_run):
    """Chosen where it is looked at, except that the test split never chooses; and up to a step where told."""
    curve = Performance(over("train"), "loss").curve()
    assert Performance(over("train"), "loss").best_step() == min(curve, key=lambda step: curve[step])
    assert Performance(over("test"), "loss").best_step() == tiny_run.best_step("loss")
    assert Performance(over("validation"), "loss").best_step(last=10) == 10


def test_bleu_is_of_the_models_own_translations(translator):
    """Low for a model of 20 steps, 100 for a model that says what is right; stored with its signature."""
    step = translator.run.steps()[-1]
    measured = Performance(translator, "bleu")
    assert 0 <= measured.at(step) < 50
    stored = json.loads(translator.run.performance_path("validation", step, "bleu").read_text())
    assert stored["beam"] == 5
    assert stored["limit"] == 100
    assert "tok:13a" in stored["signature"]

    class Perfect:
        def translate(self, batch, *, beam, limit):
            return [y[y != EOS][:limit].tolist() for y in (y[m] for y, m in zip(batch.y, batch.y_mask, strict=True))]

    translator.model = lambda step: Perfect()
    assert measured._bleu(step)["bleu"] == pytest.approx(100)


def test_bleu_is_sacrebleus():
    """By hand: three of four words right, no four-gram, so smoothed; and 100 for the same sentence."""
    assert score_bleu(["the cat sat here now"], ["the cat sat here now"])["bleu"] == pytest.approx(100)
    precisions = (4 / 5, 3 / 4, 2 / 3, 1 / 2)
    by_hand = 100 * torch.tensor(precisions).log().mean().exp().item()
    assert score_bleu(["the cat sat here now"], ["the cat sat here then"])["bleu"] == pytest.approx(by_hand, rel=1e-5)


def test_pieces_become_text():
    """Pieces are glued where they say where blanks are; words have blanks between them."""
    for tokens, text in ((("▁a", "b", "▁c"), "ab c"), (("a", "b", "c"), "a b c")):
        corpus = Corpus("t", "translation", {}, tokens, tokens)
        assert spell([[0, 1, 2]], corpus) == [text]


def test_the_reference_loses_its_end_and_nothing_else():
    """The last token of an output is dropped if it is the end symbol of this corpus, whatever its id, and only then."""
    tokens = ("<pad>", "</s>", "a", "b")
    split = Split.of([[2], [2]], [[2, 3, 1], [3, 2]])
    corpus = Corpus("t", "translation", {"v": split}, tokens, tokens, target_roles=TokenRoles((0, 1)))
    assert [*_references(split.batch(np.array([0, 1])), corpus)] == [[2, 3], [3, 2]]


def test_who_cannot_translate_is_told(over, tmp_path):
    """A sentence, for a model without translate and for a measure that does not exist."""
    with pytest.raises(UsageError, match="BLEU is for models that translate, and tiny-model on tiny-task does not"):
        Performance(over("validation"), "bleu").at(30)
    with pytest.raises(UnknownNameError, match="unknown performance 'blue'; did you mean 'bleu'"):
        Performance(over("validation"), "blue")


def test_agreement_is_contextualised_by_the_performance_in_use(tmp_path, run_tiny, tiny_registry):
    """ξ* is the best by that measure on that split."""
    first, _ = run_tiny(), run_tiny(seed=1)
    about = {"runs": tmp_path / "runs", "registry": tiny_registry, "device": "cpu"}
    found = agree("alpha", "beta", split="train", performance="loss", **about)
    curve = Performance(Extractor(first, tiny_registry, split="train", device="cpu"), "loss").curve()
    assert found.performance == "loss"
    assert found.xi_star == min(curve.values())
    assert found.u.endswith(f"@{min(curve, key=lambda step: curve[step])}")
