"""Tiny Hugging Face models for tests: from scratch on a few sentences of the generated tasks, and saved to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ktiwprobe import Batch, Corpus, build_registry
from ktiwprobe.plugins.registry import Registry

SEQ2SEQ = ("bart", "mbart", "marian", "t5", "bert+bert")
ENCODERS = ("bert", "roberta", "distilbert")
DECODERS = ("gpt2", "llama")
FAMILIES = (
    *(("hf-seq2seq", config) for config in SEQ2SEQ),
    *(("hf-classifier", config) for config in (*ENCODERS, "gpt2")),
    *(("hf-causal-lm", config) for config in DECODERS),
    *(("hf-masked-lm", config) for config in ENCODERS),
)
SIZES: dict[str, Any] = {"layers": 2, "hidden": 16, "heads": 4, "memory": 1}
REGISTRY: Registry = build_registry()


def load_task(name: str) -> Corpus:
    """A generated task, 40 training sentences and 12 others."""
    task = REGISTRY.load("tasks", name)
    sizes = {key: 40 if key == "train" else 12 for key in ("train", "validation", "test")}
    known = task.Options.__dataclass_fields__
    return task().load(task.Options(**{key: size for key, size in sizes.items() if key in known}))


CORPORA = {name: load_task(name) for name in ("toy-translation", "toy-sentiment", "plain-text")}


def make_model(name: str, config: str, **options: Any) -> tuple[Any, Batch]:
    """A model in evaluation mode and five sentences of different lengths; weights large, so that attention is sharp."""
    cls = REGISTRY.load("models", name)
    chosen = cls.Options(**{**SIZES, "config": config, **options})
    corpus = cls.prepare(CORPORA[cls.default_task or "toy-translation"], chosen)
    torch.manual_seed(0)
    model = cls.build(corpus, chosen).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0 if parameter.dim() > 1 else 1.0)
    return model, some_sentences(corpus)


def some_sentences(corpus: Corpus, count: int = 5) -> Batch:
    """Sentences of lengths as different as can be."""
    split = corpus.split("validation")
    order = np.argsort(split.x.lengths, kind="stable")
    return split.batch(order[np.linspace(0, len(order) - 1, count).astype(int)])


def llama_config(folder: Path) -> str:
    """A Llama whose four query heads share two of keys and values."""
    from transformers import LlamaConfig

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "max_position_embeddings": 64}
    LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2, vocab_size=128).save_pretrained(folder)
    return str(folder / "config.json")


def save_bert(folder: Path, *, words: tuple[str, ...], mask: bool = True, positions: int = 128) -> Path:
    """A tiny BERT for masked words with a tokenizer of letters and of a few whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    letters = "abcdefghijklmnopqrstuvwxyz."
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    special |= {"mask_token": "[MASK]"} if mask else {}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BertConfig(**sizes, vocab_size=len(vocabulary) + 3, max_position_embeddings=positions, pad_token_id=0)
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


def save_t5(folder: Path, *, words: tuple[str, ...]) -> Path:
    """A tiny T5 with a tokenizer of words and letters: `</s>` is 1, the first of `words` is 2, `<unk>` is last."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    letters = "abcdefghijklmnopqrstuvwxyz"
    tokens = ["<pad>", "</s>", *words, *letters, *(f"##{letter}" for letter in letters), "<unk>"]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "vocab_size": len(vocabulary)}
    config = T5Config(**sizes, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder
