"""What a Trainer's data looks like, as a corpus to probe: tokenised examples, or a batch of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ktiwprobe import Corpus, Split
from ktiwprobe.data import Ragged, TokenRoles
from ktiwprobe.errors import CorpusError
from ktiwprobe_transformers.language import HfCausalLm, HfMaskedLm
from ktiwprobe_transformers.model import HfModel
from ktiwprobe_transformers.retokenise import roles_of, token_texts

IGNORED = -100  # what transformers' losses leave out
LOSS_MASKS = ("completion_mask", "assistant_masks")  # from which some trainers make the labels of a batch
Ids = list[int]


class Pair(NamedTuple):
    """Input and output ids of one example without padding, and the input positions that predict the outputs."""

    x: Ids
    y: Ids
    y_at: Ids | None = None


def as_corpus(examples: Any, model: HfModel, tokenizer: Any, *, task: str) -> Corpus:
    """Examples with input_ids and labels, or a batch of them, as the validation split of a corpus for `model`."""
    pairs = [
        _pair(f"example {number} of the probe set", example, model) for number, example in enumerate(_rows(examples))
    ]
    if not pairs:
        raise CorpusError("the probe set is empty: it needs at least one example")
    size = int(model.text_config.vocab_size)
    tokens = token_texts(tokenizer, size) if tokenizer is not None else tuple(map(str, range(size)))
    roles = TokenRoles() if tokenizer is None else roles_of(tokenizer)
    labels: Any = getattr(model.network.config, "id2label", {})
    kind: Any = model.kinds[0]
    others = tuple(str(labels.get(i, i)) for i in range(model.V)) if model.pools else tokens
    places = [pair.y_at or [] for pair in pairs]
    every = all(pair.y_at is None or len(pair.y_at) == len(pair.x) for pair in pairs)  # then nothing needs a place
    split = Split(
        Ragged.of([pair.x for pair in pairs], what="input"),
        Ragged.of([pair.y for pair in pairs], what="output"),
        y_at=None if every else Ragged.of(places),
    )
    target = TokenRoles() if model.pools else roles
    return Corpus(task, kind, {"validation": split}, tokens, others, source_roles=roles, target_roles=target)


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


def _pair(name: str, example: Any, model: HfModel) -> Pair:
    """One example as `model` reads it; `name` is what it is called in errors."""
    if not isinstance(example, Mapping) or "input_ids" not in example:
        raise CorpusError(f"{name} has no input_ids: pass tokenised examples")
    ids = _plain(example["input_ids"], f"input_ids of {name}")
    real = [bool(here) for here in _plain(example.get("attention_mask", [1] * len(ids)), f"attention_mask of {name}")]
    if len(real) != len(ids):
        raise CorpusError(f"{name} has {len(ids)} input_ids and an attention_mask of {len(real)}: they must be as many")
    given = example.get("labels", example.get("label"))
    if given is None and not isinstance(model, HfCausalLm):
        raise CorpusError(f"{name} has no labels: they say what is right")
    labels = None if given is None else _plain(given, f"labels of {name}")
    x = [i for i, here in zip(ids, real, strict=True) if here]
    if not isinstance(model, HfCausalLm | HfMaskedLm):
        return Pair(x, _outputs(labels or [], model, name))
    if labels is not None and len(labels) != len(ids):
        raise CorpusError(
            f"{name} has {len(ids)} input_ids and {len(labels)} labels: a language model needs one for each"
        )
    here = None if labels is None else [i for i, here in zip(labels, real, strict=True) if here]
    if isinstance(model, HfMaskedLm):
        return _filled(x, here or [], model.mask_id, name)
    if here is None and (masks := [mask for mask in LOSS_MASKS if mask in example]):
        raise CorpusError(
            f"{name} has {masks[0]} and no labels: pass labels that are {IGNORED} where nothing is learned"
        )
    return _next(x, here, name)


def _next(x: Ids, labels: Ids | None, name: str) -> Pair:
    """Each token but the last, and what is learned there: transformers' causal losses take the label one place on."""
    if len(x) < 2:
        raise CorpusError(f"{name} has {len(x)} tokens: a next token needs two")
    after = (x if labels is None else labels)[1:]
    y_at = [place for place, label in enumerate(after) if label != IGNORED]
    if not y_at:
        raise CorpusError(f"{name} has no label that counts, all are {IGNORED}: leave it out")
    return Pair(x[: y_at[-1] + 1], [after[place] for place in y_at], y_at)  # what follows cannot be seen


def _filled(x: Ids, labels: Ids, mask_id: int, name: str) -> Pair:
    """A text with gaps, and what stood there: the labelled tokens must be the masked ones."""
    for place, (token, label) in enumerate(zip(x, labels, strict=True)):
        if (token == mask_id) != (label != IGNORED):
            what = "a mask token without a label" if token == mask_id else "a label without a mask token"
            raise CorpusError(
                f"{name} has {what} at position {place}: mask every labelled token and no other, as with "
                "mask_replace_prob=1.0"
            )
    y = [label for label in labels if label != IGNORED]
    if not y:
        raise CorpusError(f"{name} has no mask token: leave it out")
    return Pair(x, y)


def _outputs(labels: Ids, model: HfModel, name: str) -> Ids:
    """The label of a classifier, or an output sentence without its padding."""
    y = [label for label in labels if label != IGNORED]
    if not y:
        raise CorpusError(f"{name} has no label that counts, all are {IGNORED}: leave it out")
    if model.pools and len(labels) != 1:
        raise CorpusError(
            f"{name} has {len(labels)} labels: a classifier is probed with one, so not with multi-label data"
        )
    if labels[: len(y)] != y:
        raise CorpusError(f"{name} has {IGNORED} before a label: only padding after the output may be left out")
    return y


def _plain(values: Any, name: str) -> Ids:
    """Ids as a list, whatever holds them; a label alone is a list of one. Anything but whole numbers is refused."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    items = list(listed) if isinstance(listed, Sequence) and not isinstance(listed, str) else [listed]
    for item in items:
        if not isinstance(item, int):
            raise CorpusError(
                f"{name} has the value {item!r}: ids and labels are whole numbers; regression is not supported"
            )
    return [int(item) for item in items]
