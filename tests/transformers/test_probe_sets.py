"""What a Trainer's examples become: which outputs count, against transformers' own loss, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
)

from ktiwprobe import Corpus, Split, build_registry, extract, probe
from ktiwprobe.cli import main
from ktiwprobe.corpus.saved import load_corpus
from ktiwprobe.data import Ragged
from ktiwprobe.errors import CorpusError, PluginError
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.recording.recorder import recorded_sentences
from ktiwprobe.views.page.sentences import describe
from ktiwprobe_transformers.probe_sets import as_corpus
from ktiwprobe_transformers.tracer import as_model, make_recorder

V, GAP = 20, 19
BERT = {"vocab_size": V, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def gpt() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": V, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.5}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).eval()


def texts() -> list[dict[str, list[int]]]:
    """A prompt and its answer; an answer with holes and an end that is not learned; labels that are other ids."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(1, V, n).tolist() for n in (6, 9, 7))
    labels = [-100, -100, *a[2:]], [-100] * 4 + [b[4], -100, b[6], -100, -100], [-100] * 5 + [3, 4]
    return [{"input_ids": x, "labels": y} for x, y in zip((a, b, c), labels, strict=True)]


COUNTED = [[1, 2, 3, 4], [3, 5], [4, 5]]  # positions before the labels that count
DATA = texts()


def padded(examples: list[dict[str, list[int]]], *, left: bool) -> dict[str, torch.Tensor]:
    """As a collator makes a batch of them."""
    longest = max(len(example["input_ids"]) for example in examples)
    rows: dict[str, list[list[int]]] = {"input_ids": [], "attention_mask": [], "labels": []}
    for example in examples:
        size = len(example["input_ids"])
        parts = {"input_ids": (example["input_ids"], 0), "attention_mask": ([1] * size, 0)}
        parts["labels"] = (example["labels"], -100)
        for name, (values, fill) in parts.items():
            more = [fill] * (longest - size)
            rows[name].append([*more, *values] if left else [*values, *more])
    return {name: torch.tensor(values) for name, values in rows.items()}


def record(network: Any, examples: Any, folder: Path, **about: Any) -> Any:
    model = as_model(network)
    recorder = make_recorder(model, examples, None, {"task": "t", "runs": folder, **about})
    recorder.record(model, 0)
    return recorder.run


@pytest.mark.parametrize("form", ["list", "right", "left"])
def test_the_loss_is_that_of_transformers(tmp_path: Path, form: str) -> None:
    """The mean -log p over the outputs that count is the loss that a Trainer sees, sentence by sentence too."""
    network = gpt()
    examples = DATA if form == "list" else padded(DATA, left=form == "left")
    run = record(network, examples, tmp_path, probes=("alpha",))
    with torch.no_grad():
        each = [network(**{k: torch.tensor([v]) for k, v in example.items()}).loss.item() for example in DATA]
        whole = network(**padded(DATA, left=False)).loss.item()
    counts = [len(places) for places in COUNTED]
    assert run.performance("loss")[0] == pytest.approx(whole, abs=1e-5)
    nll = recorded_sentences(run, 0)["nll"]
    assert nll == pytest.approx([n * loss for n, loss in zip(counts, each, strict=True)], abs=1e-4)


def test_rows_are_those_of_the_outputs_that_count() -> None:
    """Signals are the rows of the whole text's signals at those positions, each with its own token."""
    network = gpt()
    model, corpus = as_model(network), as_corpus(DATA, as_model(network), None, task="t")
    whole = as_corpus([{"input_ids": example["input_ids"]} for example in DATA[:2]], model, None, task="t")
    for name in ("alpha", "beta", "delta"):
        some, full = (probe(model, [c.split("validation").batch(np.array([i])) for i in (0, 1)], name)
                      for c in (corpus, whole))  # fmt: skip
        for i, places in enumerate(COUNTED[:2]):
            expected = full[i][..., places, : places[-1] + 1]
            np.testing.assert_allclose(some[i], expected, atol=1e-5, equal_nan=True)
    part = corpus.split("validation")
    for i, (example, places) in enumerate(zip(DATA, COUNTED, strict=True)):
        assert part.y[i].tolist() == [example["labels"][place + 1] for place in places]


def test_every_view_names_the_right_tokens(tmp_path: Path) -> None:
    """The frame, `show` and the page of a recording have the answer's tokens, not the prompt's."""
    run = record(gpt(), DATA, tmp_path, probes=("alpha", "beta"))
    frame = extract(run, "beta").to_frame()
    second = frame[frame.sentence == 1]
    labels = [str(i) for i in DATA[1]["labels"] if i != -100]
    assert [*dict.fromkeys(zip(second.t, second.target, strict=True))] == [*enumerate(labels)]
    assert second.source.tolist() == [str(DATA[1]["input_ids"][i]) for i in second.l]
    shown = CliRunner().invoke(main, ["show", "--sentence", "1", "--runs", str(tmp_path)])
    lines = [line.split()[0] for line in shown.output.splitlines() if line[:1].isdigit() and "*" in line]
    assert (shown.exit_code, lines) == (0, labels), shown.output
    again = load_corpus(run.corpus_path)
    assert again.fingerprints == run.record.corpus
    page = describe(Extractor(run, build_registry(), device="cpu"), np.array([1]))
    nats = recorded_sentences(run, 0)["nll"][1] / len(labels)
    assert (page[0]["target"], page[0]["surprise"]) == (labels, pytest.approx(nats / np.log(2), abs=1e-3))


def test_extract_reads_what_was_recorded(tmp_path: Path) -> None:
    """Without --probe it does not ask a recorded run for a delta that it does not have."""
    record(gpt(), DATA, tmp_path, probes=("alpha", "beta"))
    done = CliRunner().invoke(main, ["extract", "--runs", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert [line.split("@")[0].split(":")[-1] for line in done.output.splitlines()] == ["alpha", "beta"]


def test_labels_that_all_count_change_nothing() -> None:
    """Then the corpus is that of the ids alone, with the same fingerprint."""
    model = as_model(gpt())
    ids = [example["input_ids"] for example in DATA]
    plain, labelled = (
        as_corpus([{"input_ids": x, **more(x)} for x in ids], model, None, task="t")
        for more in (lambda x: {}, lambda x: {"labels": [-100, *x[1:]]})
    )
    assert labelled.split("validation").y_at is None
    assert labelled.fingerprints == plain.fingerprints
    assert as_corpus(DATA, model, None, task="t").fingerprints != plain.fingerprints


MASKED = {"input_ids": [4, GAP, 6, GAP], "labels": [-100, 5, -100, 7]}
CAUSAL: list[tuple[dict[str, Any], str]] = [
    ({"input_ids": [1, 2, 3], "labels": [-100, -100, -100]}, "example 0 of the probe set has no label that counts"),
    ({"input_ids": [1, 2, 3], "labels": [2, -100, -100]}, "has no label that counts"),
    ({"input_ids": [1, 2, 3], "labels": [2, 3]}, "3 input_ids and 2 labels"),
    ({"input_ids": [1, 2, 3], "completion_mask": [0, 0, 1]}, "has completion_mask and no labels"),
    ({"input_ids": [1, 2, 3], "labels": [1, 2, 99]}, "output ids from 2 to 99"),
    ({"input_ids": [1, 2, 3.5]}, "input_ids of example 0 of the probe set has the value 3.5"),
    ({"input_ids": [1, 2, 3], "attention_mask": [1, 1]}, "an attention_mask of 2"),
]
GAPS: list[tuple[dict[str, Any], str]] = [
    ({**MASKED, "labels": [5, -100, 7, -100]}, "a label without a mask token at position 0"),
    ({**MASKED, "labels": [-100, 5, -100, -100]}, "a mask token without a label at position 3"),
    ({"input_ids": [4, 5], "labels": [-100, -100]}, "has no mask token"),
    ({**MASKED, "labels": [5, 7]}, "4 input_ids and 2 labels"),
]


@pytest.mark.parametrize(("example", "sentence"), CAUSAL)
def test_causal_examples_that_cannot_be_probed(example: dict[str, Any], sentence: str) -> None:
    """Each is refused with a sentence that says what is wrong."""
    with pytest.raises(CorpusError, match=sentence):
        as_corpus([example], as_model(gpt()), None, task="t")


def masked_model() -> Any:
    tokenizer = SimpleNamespace(mask_token_id=GAP)
    return as_model(BertForMaskedLM(BertConfig(**BERT)).eval(), tokenizer=tokenizer)


@pytest.mark.parametrize(("example", "sentence"), GAPS)
def test_gaps_are_where_the_labels_are(example: dict[str, Any], sentence: str) -> None:
    """As many labels as mask tokens is not enough: they must stand at the same positions."""
    with pytest.raises(CorpusError, match=sentence):
        as_corpus([example], masked_model(), None, task="t")


def test_the_masked_loss_is_that_of_transformers() -> None:
    """Labels go to their gaps in order, with padding before them too."""
    model = masked_model()
    examples = [MASKED, {"input_ids": [GAP, 8], "labels": [9, -100]}]
    batch = padded(examples, left=True)
    split = as_corpus(batch, model, None, task="t").split("validation")
    with torch.no_grad():
        _, total, nll = model.evaluate(split.batch(np.array([0])))
        loss = model.network(**{name: torch.tensor([values]) for name, values in MASKED.items()}).loss
    assert (int(total), float(nll)) == (2, pytest.approx(2 * float(loss), abs=1e-5))


@pytest.mark.parametrize(
    "config", [{"num_labels": 1}, {"problem_type": "regression"}, {"problem_type": "multi_label_classification"}]
)
def test_regression_is_refused_by_name(config: dict[str, Any]) -> None:
    """A network that predicts a number, or several labels, has no one right output."""
    network = BertForSequenceClassification(BertConfig(**BERT, **config))
    what = "multi-label classification" if "multi" in str(config) else "regression"
    with pytest.raises(PluginError, match=f"BertForSequenceClassification is for {what}"):
        as_model(network)


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        (1.7, r"has the value 1\.7: ids and labels are whole numbers; regression"),
        (torch.tensor(1.0), r"has the value 1\.0"),
        ([0, 1, 1], "has 3 labels: a classifier is probed with one"),
        (-100, "has no label that counts"),
    ],
)
def test_labels_of_a_classifier_are_classes(label: Any, sentence: str) -> None:
    """A float is never cut to a class, and several labels are not one."""
    model = as_model(BertForSequenceClassification(BertConfig(**BERT, num_labels=3)).eval())
    with pytest.raises(CorpusError, match=sentence):
        as_corpus([{"input_ids": [1, 2], "label": label}], model, None, task="t")


def test_an_output_has_no_holes() -> None:
    """A decoder reads its output, so -100 before a label would be another output."""
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "vocab_size": V}
    sizes |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    model = as_model(BartForConditionalGeneration(BartConfig(**sizes, max_position_embeddings=16)).eval())
    made = as_corpus([{"input_ids": [4, 5], "labels": [6, 2, -100]}], model, None, task="t")
    assert made.split("validation").y[0].tolist() == [6, 2]
    with pytest.raises(CorpusError, match="has -100 before a label"):
        as_corpus([{"input_ids": [4, 5], "labels": [6, -100, 2]}], model, None, task="t")


def test_places_are_for_models_that_predict_at_them() -> None:
    """A corpus with y_at is refused for a masked language model, whose outputs are its gaps."""
    split = Split(Ragged.of([[1, GAP]]), Ragged.of([[2]]), y_at=Ragged.of([[1]]))
    tokens = tuple(map(str, range(V)))
    corpus = Corpus("t", "text", {"validation": split}, tokens, tokens)
    with pytest.raises(CorpusError, match="has y_at, an input position for each output, and HfMaskedLm"):
        make_recorder(masked_model(), corpus, None, {})
