"""What a Trainer's data looks like, as a corpus to probe: tokenised examples, or a batch of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ktiwprobe import Corpus, Split
from ktiwprobe.errors import CorpusError
from ktiwprobe_transformers.language import HfCausalLm, HfMaskedLm
from ktiwprobe_transformers.model import HfModel
from ktiwprobe_transformers.retokenise import token_texts

IGNORED = -100  # what transformers' losses leave out
Ids = list[int]


def as_corpus(examples: Any, model: HfModel, tokenizer: Any, *, task: str) -> Corpus:
    """Examples with input_ids and labels, or a batch of them, as the validation split of a corpus for `model`."""
    pairs = [_pair(number, example, model) for number, example in enumerate(_rows(examples))]
    if not pairs:
        raise CorpusError("the probe set is empty: it needs at least one example")
    size = int(model.text_config.vocab_size)
    tokens = token_texts(tokenizer, size) if tokenizer is not None else tuple(map(str, range(size)))
    labels: Any = getattr(model.network.config, "id2label", {})
    kind: Any = model.kinds[0]
    others = tuple(str(labels.get(i, i)) for i in range(model.V)) if model.pools else tokens
    split = Split.of([x for x, _ in pairs], [y for _, y in pairs])
    return Corpus(task, kind, {"validation": split}, tokens, others)


def _rows(examples: Any) -> Iterable[Mapping[str, Any]]:
    """One mapping for each example; a batch is a mapping of lists or tensors."""
    if examples is None:
        raise CorpusError(
            "there is no probe set: pass examples with input_ids and labels, such as a part of eval_dataset"
        )
    if isinstance(examples, Mapping):
        names, columns = list(examples), [list(column) for column in examples.values()]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    if not isinstance(examples, Iterable):
        raise CorpusError(f"the probe set is a {type(examples).__name__}: it must hold examples, or be a Corpus")
    return examples


def _pair(number: int, example: Any, model: HfModel) -> tuple[Ids, Ids]:
    """Input and output ids of one example, without padding."""
    if not isinstance(example, Mapping) or "input_ids" not in example:
        raise CorpusError(f"example {number} of the probe set has no input_ids: pass tokenised examples")
    x = _plain(example["input_ids"])
    real = _plain(example.get("attention_mask", [1] * len(x)))
    kept = [bool(here) for here in real]
    x = [i for i, here in zip(x, kept, strict=True) if here]
    if isinstance(model, HfCausalLm):
        if len(x) < 2:
            raise CorpusError(f"example {number} of the probe set has {len(x)} tokens: a next token needs two")
        return x[:-1], x[1:]
    labels = example.get("labels", example.get("label"))
    if labels is None:
        raise CorpusError(f"example {number} of the probe set has no labels: they say what is right")
    y = [i for i in _plain(labels) if i != IGNORED]
    gaps = x.count(model.mask_id) if isinstance(model, HfMaskedLm) else len(y)
    if gaps != len(y):
        raise CorpusError(
            f"example {number} of the probe set has {gaps} mask tokens and {len(y)} labels: mask "
            "every labelled token, as with mask_replace_prob=1.0"
        )
    return x, y


def _plain(values: Any) -> Ids:
    """Ids as a list, whatever holds them; a label alone is a list of one."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    return [int(i) for i in listed] if isinstance(listed, Sequence) else [int(listed)]
