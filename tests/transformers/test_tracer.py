"""The Tracer in a Trainer and in a loop: what it records, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
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
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    MistralConfig,
    MistralForCausalLM,
    Trainer,
    TrainingArguments,
)

from ktiwprobe import Batch, agree, extract, probe
from ktiwprobe.cli import main
from ktiwprobe.errors import CorpusError, KtiwprobeError, OptionError, PluginError, RunError, UsageError
from ktiwprobe.recording.recorder import recorded_sentences
from ktiwprobe_transformers import Tracer, trace_step
from ktiwprobe_transformers.model import HfModel
from ktiwprobe_transformers.tracer import as_model, make_recorder

SMALL = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "vocab_size": 12}
SMALL |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_position_embeddings": 16}
PAD, START, END = 0, 1, 2


def bart(seed: int = 0) -> BartForConditionalGeneration:
    torch.manual_seed(seed)
    ids = {"pad_token_id": PAD, "bos_token_id": START, "eos_token_id": END, "decoder_start_token_id": START}
    return BartForConditionalGeneration(BartConfig(**SMALL, **ids, forced_eos_token_id=None, dropout=0.1))


def sentences(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Copies of sentences of 2 to 5 words."""
    rng = np.random.default_rng(seed)
    rows = [[*rng.integers(3, 12, rng.integers(2, 6)).tolist(), END] for _ in range(count)]
    return [{"input_ids": row, "labels": list(row)} for row in rows]


def collate(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    longest = max(len(row["input_ids"]) for row in rows)
    x = torch.tensor([row["input_ids"] + [PAD] * (longest - len(row["input_ids"])) for row in rows])
    return {"input_ids": x, "attention_mask": (x != PAD).long(), "labels": x.masked_fill(x == PAD, -100)}


def train(folder: Path, tracer: Tracer | None, *, steps: int = 8, resume: bool = False, seed: int = 0) -> Any:
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        max_steps=steps,
        per_device_train_batch_size=4,
        save_steps=4,
        seed=seed,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        logging_strategy="no",
        lr_scheduler_type="constant",
        dataloader_pin_memory=False,
    )
    callbacks = [tracer] if tracer else []
    network = bart(seed)
    trainer = Trainer(network, arguments, train_dataset=sentences(16), data_collator=collate, callbacks=callbacks)
    trainer.train(resume_from_checkpoint=resume or None)
    return network


def tracer(runs: Path, **about: Any) -> Tracer:
    return Tracer(sentences(6, seed=1), runs=runs / "runs", **{"at": "every:3", "model": "bart", **about})


def test_a_traced_training_ends_in_the_same_weights(tmp_path: Path) -> None:
    """Dropout, data order and updates are those of a training without the callback; nothing stays behind."""
    plain, mine = train(tmp_path / "a", None), tracer(tmp_path)
    traced = train(tmp_path / "b", mine)
    expected = plain.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in traced.state_dict().items())
    assert mine.run.steps() == [0, 3, 6, 8]
    assert traced.config._attn_implementation == plain.config._attn_implementation
    assert not any(module._forward_hooks for module in traced.modules())
    assert all("forward" not in vars(module) for module in traced.modules())


def test_values_are_those_of_probe(tmp_path: Path) -> None:
    """The last step holds what `ktiwprobe.probe` says of the trained network, and the loss is the network's own."""
    mine, examples = tracer(tmp_path), sentences(6, seed=1)
    network = train(tmp_path, mine).eval()
    padded = collate(examples)
    x, mask = padded["input_ids"], padded["attention_mask"].bool()
    batch = Batch(x, mask, mask.sum(1), x, mask)
    for name in ("alpha", "beta", "delta"):
        stored, live = extract(mine.run, name, at="last"), probe(as_model(network), [batch], name)
        assert stored.sites == live.sites
        np.testing.assert_allclose(stored.values, live.values, atol=1e-4)
    with torch.no_grad():
        loss = float(network(**padded).loss)
    assert mine.run.performance("loss")[8] == pytest.approx(loss, abs=1e-4)


def test_two_trainings_are_a_group(tmp_path: Path) -> None:
    """Two seeds give A(alpha, beta), A(alpha, beta-hat) and xi, and each head can be asked for."""
    for seed in (0, 1):
        train(tmp_path / str(seed), tracer(tmp_path, site="cross:all"), seed=seed)
    found = agree("alpha", "beta", runs=tmp_path / "runs")
    assert "bart-s0:alpha" in found.u
    assert "bart-s0:beta" in found.v
    assert "bart-s1:beta" in agree("alpha", "beta-hat", runs=tmp_path / "runs").v
    assert found.xi is not None
    assert "cross:0.h1" in agree("alpha[cross:0.h1]", "delta", runs=tmp_path / "runs").u


def test_show_and_report_read_a_recording(tmp_path: Path) -> None:
    """Both commands work without the network, and say of a sentence what the network would have said."""
    mine = tracer(tmp_path, probes=("alpha", "beta"))
    network = train(tmp_path, mine).eval()
    shown = type_in("show", "bart-s0", "--at", "last", "--sentence", "2", "--runs", tmp_path / "runs")
    with torch.no_grad():
        batch = collate(sentences(6, seed=1)[2:3])
        right = int((network(**batch).logits.argmax(-1) == batch["labels"]).sum())
    assert f"{right}/{batch['labels'].shape[1]} outputs right" in shown
    page = tmp_path / "page.html"
    assert "6 of 6 sentences, 4 steps" in type_in("report", "--runs", tmp_path / "runs", "--out", page)
    nats = sum(recorded_sentences(mine.run, 8)["nll"]) / sum(len(row["labels"]) for row in sentences(6, seed=1))
    assert mine.run.performance("loss")[8] == pytest.approx(nats, abs=1e-4)


def type_in(*words: object) -> str:
    done = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_a_resumed_trainer_goes_on(tmp_path: Path) -> None:
    """A Trainer that is resumed from its checkpoint records what an uninterrupted one would have."""
    whole, broken = tracer(tmp_path / "whole"), tracer(tmp_path / "broken")
    train(tmp_path / "whole", whole)
    train(tmp_path / "broken", broken, steps=5)  # its checkpoint is of step 5 too; go back to step 4
    last = tmp_path / "broken" / "trainer" / "checkpoint-5"
    last.rename(tmp_path / "elsewhere")
    again = tracer(tmp_path / "broken")
    train(tmp_path / "broken", again, resume=True)
    assert again.run.steps() == whole.run.steps() == [0, 3, 6, 8]
    for step in again.run.steps():
        one, other = (extract(t.run, "beta", at=step).values for t in (whole, again))
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_trace_step_serves_any_loop(tmp_path: Path) -> None:
    """A batch, a step and a network are enough; a step that is not due is left out, one that was is refused."""
    network, batch = bart(), collate(sentences(4))
    about = {"runs": tmp_path, "at": "every:2"}
    assert [trace_step(network, batch, step, **about) for step in range(3)] == [True, False, True]
    with pytest.raises(UsageError, match="step 2 cannot be recorded after step 2"):
        trace_step(network, batch, 2, **about)
    assert network.training
    with pytest.raises(RunError, match="another probe set"):
        trace_step(network, collate(sentences(5)), 4, **about)


def test_other_kinds_of_models(tmp_path: Path) -> None:
    """A classifier and a causal language model are known by their class."""
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    classifier = BertForSequenceClassification(BertConfig(vocab_size=12, num_labels=3, **sizes))
    labelled = {"input_ids": torch.tensor([[1, 4, 5], [1, 6, 2]]), "labels": torch.tensor([2, 0])}
    assert trace_step(classifier, labelled, 0, runs=tmp_path)
    gpt = GPT2LMHeadModel(GPT2Config(vocab_size=12, n_embd=16, n_layer=1, n_head=2, n_positions=16))
    assert trace_step(gpt, {"input_ids": [[3, 4, 5, 6], [5, 4, 3]]}, 0, runs=tmp_path)
    signal = extract(next(iter_runs(tmp_path, "GPT2LMHeadModel")), "beta")
    assert signal.lengths.tolist() == [1, 2, 3, 1, 2]


def iter_runs(folder: Path, name: str) -> Any:
    from ktiwprobe.runs.listing import find_runs

    return (run for run in find_runs(folder) if run.record.model == name)


def test_bad_input_is_told_in_a_sentence(tmp_path: Path) -> None:
    """No probe set, none that fits, a model of another kind, a site that is not there."""
    network, sizes = bart(), {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=12, intermediate_size=16, **sizes)
    cases: list[tuple[type[KtiwprobeError], str, Any]] = [
        (UsageError, "there is no probe set", lambda: Tracer(None)),
        (UsageError, "ktiwprobe rm", lambda: trace_step(network, [], 0, overwrite=True, runs=tmp_path)),
        (CorpusError, "there is no probe set", lambda: trace_step(network, None, 0, runs=tmp_path)),
        (CorpusError, "no input_ids", lambda: trace_step(network, [{"labels": [1]}], 0, runs=tmp_path)),
        (CorpusError, "no labels", lambda: trace_step(network, [{"input_ids": [1]}], 0, runs=tmp_path)),
        (CorpusError, "is empty", lambda: trace_step(network, [], 0, runs=tmp_path)),
        (PluginError, "BertModel is no seq2seq", lambda: trace_step(BertModel(config), [], 0, runs=tmp_path)),
        (UsageError, "its tokenizer", lambda: trace_step(BertForMaskedLM(config), [], 0, runs=tmp_path)),
        (OptionError, "unknown site", lambda: trace_step(network, [], 0, site="cross:9", runs=tmp_path)),
    ]
    for error, words, act in cases:
        with pytest.raises(error, match=words):
            act()
    assert not list(tmp_path.iterdir())


def test_a_windowed_network_that_0_1_recorded_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its beta has cells outside the window, and nothing in the run says so: the class that recorded it counts up."""
    sizes = {"vocab_size": 30, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "sliding_window": 3}
    network = MistralForCausalLM(MistralConfig(**sizes, num_attention_heads=2, num_key_value_heads=1))
    monkeypatch.setattr(HfModel, "version", 1)
    record = make_recorder(as_model(network), [{"input_ids": list(range(1, 13))}], None, {"runs": str(tmp_path)})
    record.record(as_model(network), 0)
    monkeypatch.undo()
    with pytest.raises(RunError, match=r"recorded by version 1 of the model HfCausalLm, which is now 2"):
        agree("alpha", "beta", runs=tmp_path)
