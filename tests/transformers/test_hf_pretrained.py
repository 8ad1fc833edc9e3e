"""Pretrained models: from a folder, with their own tokenizer; and all that can be wrong with a path."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.models.configs import tiny_config
from click.testing import CliRunner

import hf_tiny
from ktiwprobe import agree, extract, train
from ktiwprobe.cli import main
from ktiwprobe.errors import CorpusError, OptionError
from ktiwprobe_transformers.retokenise import encode

WORDS = ("lo", "la", "li", ".")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT."""
    return hf_tiny.save_bert(tmp_path_factory.mktemp("bert"), words=WORDS)


def prepare(name: str, task: str, **options: Any) -> tuple[Any, Any, Any]:
    """A model class, its options, and a task as it reads it."""
    cls = hf_tiny.REGISTRY.load("models", name)
    chosen = cls.Options(**options)
    return cls, chosen, cls.prepare(hf_tiny.CORPORA[task], chosen)


def test_any_task_is_read_with_the_models_own_tokenizer(folder: Path) -> None:
    """Tokens of a word, put together again, spell the word they are said to be of."""
    _, _, corpus = prepare("hf-classifier", "toy-sentiment", path=str(folder))
    split = corpus.split("train")
    assert corpus.target_tokens == hf_tiny.CORPORA["toy-sentiment"].target_tokens
    assert len(corpus.source_tokens) == json.loads((folder / "config.json").read_text())["vocab_size"]
    for row in range(5):
        tokens = [corpus.source_tokens[i] for i in split.x[row]]
        assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
        assert split.x_words[row][[0, -1]].tolist() == [-1, -1]
        for number, word in enumerate(split.x_text[row]):
            pieces = [t for t, w in zip(tokens, split.x_words[row], strict=True) if w == number]
            assert "".join(piece.removeprefix("##") for piece in pieces) == word


def test_known_links_follow_their_words(folder: Path) -> None:
    """Every token of an output word is linked to every token of the input word it was linked to."""
    corpus = hf_tiny.CORPORA["toy-translation"]
    cls = hf_tiny.REGISTRY.load("models", "hf-seq2seq")
    from ktiwprobe_transformers.retokenise import retokenised

    new = retokenised(corpus, cls.Options(path=str(folder)), sides=1).split("train")
    old = corpus.split("train")
    words = {(t, old.x_words[0][place]) for t, place, _ in old.links[0]}
    assert {(t, new.x_words[0][place]) for t, place, _ in new.links[0]} == words
    assert len(new.links[0]) > len(old.links[0])


def test_a_slow_tokenizer_gets_one_word_at_a_time() -> None:
    """Tokenizers that do not tell of which word a token is."""

    class Letters:
        def __call__(self, text: Any, add_special_tokens: bool) -> dict[str, Any]:
            if isinstance(text, str):
                return {"input_ids": [9] if add_special_tokens else []}
            return {"input_ids": [[ord(letter) - 96 for letter in word] for word in text]}

    ids, words = encode(Letters(), [("ab", "c"), ("c",)], special=True)
    assert [ids[i].tolist() for i in range(2)] == [[1, 2, 3, 9], [3, 9]]
    assert [words[i].tolist() for i in range(2)] == [[0, 0, 1, -1], [0, -1]]


def test_a_run_is_rebuilt_from_its_folder_and_checkpoint(folder: Path, tmp_path: Path) -> None:
    """A pretrained run can be probed later, from elsewhere; its weights are those it learned, not the folder's."""
    there = tmp_path / "model"
    shutil.copytree(folder, there)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        sizes = {"task.train": 40, "task.validation": 12, "task.test": 12, "path": "model", "memory": 4}
        run = train("hf-classifier", "toy-sentiment", steps=3, options=sizes, runs=tmp_path / "runs", device="cpu")
    assert run.record.options["model"]["path"] == str(there)
    beta = extract(run, "beta", device="cpu")
    found = agree(extract(run, "delta", device="cpu"), beta)
    assert 0 <= found.value <= 1
    again = torch.nn.utils.parameters_to_vector
    model = hf_tiny.REGISTRY.load("models", "hf-classifier")
    del again, model
    assert len(run.record.sites) == 4


def test_pretrained_weights_learn_more_slowly_than_a_new_head(folder: Path) -> None:
    """The head that the folder does not have is new."""
    cls, options, corpus = prepare("hf-classifier", "toy-sentiment", path=str(folder), slower=0.1)
    model = cls.build(corpus, options)
    rates = {group["lr"]: group["params"] for group in model.optimiser(model.parameters(), lr=0.5).param_groups}
    assert sorted(rates) == [0.05, 0.5]
    assert any(p is model.network.classifier.weight for p in rates[0.5])
    assert any(p is model.network.bert.embeddings.word_embeddings.weight for p in rates[0.05])


def test_masked_words_are_the_same_every_time(folder: Path) -> None:
    """Gaps are seeded, at least one of a text, and y is what stood there."""
    cls, options, corpus = prepare("hf-masked-lm", "plain-text", path=str(folder), gaps=0.3)
    split, again = (
        c.split("train") for c in (corpus, prepare("hf-masked-lm", "plain-text", path=str(folder), gaps=0.3)[2])
    )
    assert np.array_equal(split.x.values, again.x.values)
    gaps = [int((split.x[i] == 4).sum()) for i in range(len(split))]
    assert gaps == split.y.lengths.tolist()
    assert min(gaps) >= 1
    model = cls.build(corpus, options).eval()
    assert model.mask_id == 4
    batch = hf_tiny.some_sentences(corpus)
    assert (batch.x.gather(1, model.rows(batch).clamp_min(0))[batch.y_mask] == 4).all()


def test_ls_sites_shows_layers_and_heads(folder: Path) -> None:
    """Without loading weights, with the one that would be chosen."""
    result = CliRunner().invoke(main, ["ls", "sites", "-o", f"path={folder}", "--json"])
    assert result.exit_code == 0, result.output
    rows = [row for row in json.loads(result.output) if row["model"] == "hf-classifier"]
    assert [(row["site"], row["heads"], row["chosen"]) for row in rows] == [("self:0", 4, ""), ("self:1", 4, "yes")]


@pytest.mark.parametrize(
    ("model_type", "kind", "sites"),
    [
        ("t5", "seq2seq", ["enc:0", "enc:1", "self:0", "cross:0", "self:1", "cross:1"]),
        ("mixtral", "causal", ["self:0", "self:1"]),
        ("lfm2", "causal", ["self:0"]),
        ("deepseek_v3", "causal", ["self:0", "self:1"]),
        ("deepseek_v32", "causal", ["self:0", "self:1"]),
    ],
)
def test_ls_sites_of_networks_that_read_values(tmp_path: Path, model_type: str, kind: str, sites: list[str]) -> None:
    """Experts, position buckets and indices depend on values, which a network without weights has not."""
    tiny_config(model_type, kind).save_pretrained(tmp_path)
    result = CliRunner().invoke(main, ["ls", "sites", "-o", f"path={tmp_path}", "--json"])
    assert result.exit_code == 0, result.output
    name = "hf-seq2seq" if kind == "seq2seq" else "hf-causal-lm"
    assert [row["site"] for row in json.loads(result.output) if row["model"] == name] == sites


def fails(says: str, **options: Any) -> None:
    """Building a classifier with these options ends in a sentence."""
    with pytest.raises((OptionError, CorpusError), match=says) as caught:
        cls, chosen, corpus = prepare("hf-classifier", "toy-sentiment", **options)
        cls.build(corpus, chosen)
    assert "\n" not in str(caught.value)


def test_no_such_folder(tmp_path: Path) -> None:
    """A path that is none, and a folder without a model."""
    fails("there is no folder .*nowhere", path=str(tmp_path / "nowhere"))
    fails(r"has no config\.json", path=str(tmp_path))


def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name on the hub that is not here: how to bring it."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise OSError("no network")

    monkeypatch.setattr(socket, "create_connection", refuse)
    fails(r"`hf download nobody/nothing --local-dir FOLDER`.*-o path=FOLDER", path="nobody/nothing")


def test_no_such_site(folder: Path) -> None:
    """The layers and heads that there are."""
    for site in ("self:7", "cross:0", "self:0.h9", "nonsense"):
        fails(f"unknown site '{site}': .*has self:0 to self:1, with heads h0 to h3", path=str(folder), site=site)
    cls = hf_tiny.REGISTRY.load("models", "hf-seq2seq")
    with pytest.raises(OptionError, match="does not look from outputs at inputs: choose from cross:0 to cross:1"):
        cls.build(hf_tiny.CORPORA["toy-translation"], cls.Options(**hf_tiny.SIZES, site="enc:0"))


def test_sentences_that_are_too_long(tmp_path: Path) -> None:
    """Refused with the limit; left out on request, which is noted."""
    short = hf_tiny.save_bert(tmp_path, words=WORDS, positions=30)
    fails("tokens and BertForSequenceClassification takes at most 30: pass -o model.longest=30", path=str(short))
    cls, options, corpus = prepare("hf-classifier", "toy-sentiment", path=str(short), longest=30)
    assert "longer than 30 tokens" in corpus.notes[0]
    cls.build(corpus, options)


def test_a_tokenizer_without_the_token_that_is_needed(tmp_path: Path) -> None:
    """No mask to fill; nothing that begins or ends a text."""
    bare = hf_tiny.save_bert(tmp_path, words=WORDS, mask=False)
    with pytest.raises(OptionError, match="has no mask token, which hf-masked-lm fills"):
        prepare("hf-masked-lm", "plain-text", path=str(bare))
    with pytest.raises(OptionError, match="no token that begins or ends a text"):
        prepare("hf-causal-lm", "plain-text", path=str(bare))


def test_code_that_comes_with_weights_is_not_run(folder: Path, tmp_path: Path) -> None:
    """Unless asked for."""
    shutil.copytree(folder, tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    config |= {"model_type": "homemade", "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}}
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    (tmp_path / "m" / "code.py").write_text("raise SystemExit('this code was run')\n")
    fails("needs Python code that comes with its weights.*-o remote_code=true", path=str(tmp_path / "m"))


def test_pickled_weights_are_not_loaded(folder: Path, tmp_path: Path) -> None:
    """Unless asked for."""
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").rename(tmp_path / "m" / "pytorch_model.bin")
    fails("are pickled.*-o pickle=true", path=str(tmp_path / "m"))


def test_an_architecture_of_another_kind(folder: Path) -> None:
    """An encoder is no translator."""
    cls = hf_tiny.REGISTRY.load("models", "hf-seq2seq")
    options = cls.Options(path=str(folder))
    with pytest.raises(OptionError, match=r"'bert' has no Seq2SeqLM model.*bart"):
        cls.list_sites(options)
