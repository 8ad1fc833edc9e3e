"""Any corpus in the tokens of a pretrained model: its sentences are tokenised anew from their words.

Which word each new token is of is kept, so that runs with different tokenizers can be compared word by word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ktiwprobe import Corpus, Split
from ktiwprobe.data import Ragged, TokenRoles, each_token_a_word
from ktiwprobe.errors import CorpusError, OptionError
from ktiwprobe_transformers.loading import load_tokenizer, quiet
from ktiwprobe_transformers.networks import limit_of, pretrained_config

Sentence = tuple[str, ...]
Encoded = tuple[Ragged, Ragged]  # ids, and the word that each is of
GROUP = 1000  # sentences tokenised at a time
MOST_UNKNOWN, WORTH_A_NOTE = 0.95, 0.05  # shares of words that are unknown to a tokenizer


def retokenised(corpus: Corpus, options: Any, *, sides: int, special: bool = True) -> Corpus:
    """`corpus` in the tokens of the model at `options.path`: its inputs, and with two `sides` its outputs too."""
    tokenizer = load_tokenizer(options.path, remote_code=options.remote_code)
    config = pretrained_config(options)
    tokens = token_texts(tokenizer, int(config.get_text_config().vocab_size))
    if sides == 2 and corpus.kind == "translation" and tokenizer.eos_token_id is None:
        raise OptionError(f"the tokenizer of {options.path} has no token that ends an output: set its eos_token")
    splits = {}
    for name, split in corpus.splits.items():
        if not isinstance(split, Split):
            raise CorpusError(
                f"the {name} split of task {corpus.task} is an endless stream of ids: a model with a tokenizer of its "
                "own needs a finite one"
            )
        if split.y_at is not None:
            raise CorpusError(
                f"the {name} split of task {corpus.task} says which of its outputs count (y_at), and another tokenizer "
                "would lose that: use a model that reads the task's own tokens"
            )
        splits[name] = _split(corpus, split, tokenizer, sides=sides, special=special)
    roles = roles_of(tokenizer)
    new: dict[str, Any] = {"splits": splits, "source_tokens": tokens, "source_roles": roles}
    if sides == 2:
        new |= {"target_tokens": tokens, "target_roles": roles}
    made = replace(corpus, **new)
    return replace(made, notes=(*corpus.notes, *_check_known(made, sides, str(options.path))))


def roles_of(tokenizer: Any) -> TokenRoles:
    """Which ids of a pretrained tokenizer are special, and its own way from ids to text."""
    unknown = tokenizer.unk_token_id
    kept = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}  # GPT-2 has one token for all
    no_word = sorted(i for i in set(tokenizer.all_special_ids) if i != unknown or i in kept)

    def decode(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(list(ids)))

    return TokenRoles(tuple(no_word), () if unknown is None else (unknown,), decode=decode)


def _check_known(corpus: Corpus, sides: int, path: str) -> list[str]:
    """Notes on words that a tokenizer does not know; one that knows hardly any is refused."""
    notes = []
    for name, split in corpus.splits.items():
        for side, words in (("source", "x"), ("target", "y"))[:sides]:
            share = _unknown_share(split, words, corpus.roles(side).unknown)  # type: ignore[arg-type]
            if share > MOST_UNKNOWN:
                raise CorpusError(
                    f"the tokenizer of {path} knows {1 - share:.1%} of the {side} words in the {name} split of task "
                    f"{corpus.task}: {share:.1%} become the unknown token or none; is it the tokenizer of "
                    "this model, and of this language?"
                )
            if share > WORTH_A_NOTE:
                notes.append(
                    f"{share:.1%} of the {side} words in the {name} split are unknown to the tokenizer of {path}"
                )
    return notes


def _unknown_share(split: Any, side: str, unknown: Sequence[int]) -> float:
    """The share of words that have no token but the unknown one."""
    ids, words, text = (getattr(split, name) for name in (side, f"{side}_words", f"{side}_text"))
    total = sum(len(sentence) for sentence in text) if text is not None else 0
    if not total:
        return 0.0
    known = (words.values >= 0) & ~np.isin(ids.values, unknown)
    sentence = np.repeat(np.arange(len(ids)), ids.lengths)[known]
    number = words.values[known].astype(np.int64)
    return 1 - len(np.unique(sentence * (number.max(initial=0) + 1) + number)) / total


def token_texts(tokenizer: Any, size: int) -> tuple[str, ...]:
    """The text of every id; ids that the network has and the tokenizer has not are never met."""
    known = tokenizer.convert_ids_to_tokens(list(range(min(size, len(tokenizer)))))
    return (*(str(token) for token in known), *(f"<unused-{i}>" for i in range(len(known), size)))


def without_long(corpus: Corpus, longest: int | None) -> Corpus:
    """Without sentences of more than `longest` tokens on a side, and a note of how many there were."""
    if longest is None:
        return corpus
    splits, notes = dict(corpus.splits), list(corpus.notes)
    for name, split in corpus.splits.items():
        if isinstance(split, Split):
            rows = np.flatnonzero(np.maximum(split.x.lengths, split.y.lengths) <= longest)
            if len(rows) < len(split):
                left_out = len(split) - len(rows)
                notes.append(f"{left_out} of {len(split)} {name} examples are left out: longer than {longest} tokens")
                splits[name] = split.subset(rows)
    return replace(corpus, splits=splits, notes=tuple(notes))


def check_lengths(corpus: Corpus, network: nn.Module) -> None:
    """Refuse sentences that are longer than the network's positions go."""
    limit = limit_of(network)
    for name, split in corpus.splits.items() if limit else ():
        longest = (
            int(max(split.x.lengths.max(initial=0), split.y.lengths.max(initial=0))) if isinstance(split, Split) else 0
        )
        if limit and longest > limit:
            raise CorpusError(
                f"the {name} split of task {corpus.task} has a sentence of {longest} tokens and "
                f"{type(network).__name__} takes at most {limit}: pass -o model.longest={limit} to leave such out"
            )


def _split(corpus: Corpus, split: Split, tokenizer: Any, *, sides: int, special: bool) -> Split:
    known = split
    if split.x_text is None or (sides == 2 and split.y_text is None):
        told = each_token_a_word(replace(corpus, splits={"it": split})).splits["it"]
        known = told if isinstance(told, Split) else split
    x, x_words = encode(tokenizer, known.x_text or (), special=special)
    made: dict[str, Any] = {"x": x, "x_words": x_words, "x_text": known.x_text, "y": split.y, "y_words": split.y_words}
    made["y_text"] = known.y_text
    if sides == 2:
        made["y"], made["y_words"] = encode(tokenizer, known.y_text or (), special=special, target=True)
    made["links"] = _links(known, made)
    return Split(**made)


def encode(tokenizer: Any, sentences: Sequence[Sentence], *, special: bool, target: bool = False) -> Encoded:
    """Sentences of words as ids, with the number of each token's word, -1 for special tokens."""
    words_and_ids = _fast if getattr(tokenizer, "is_fast", False) else _slow
    ids: list[list[int]] = []
    words: list[list[int]] = []
    with quiet():
        for start in range(0, len(sentences), GROUP):
            some = [list(sentences[i]) for i in range(start, min(start + GROUP, len(sentences)))]
            for of_ids, of_words in words_and_ids(tokenizer, some, special, target):
                ids.append(of_ids)
                words.append(of_words)
    return Ragged.of(ids), Ragged.of(words)


def _fast(tokenizer: Any, some: list[list[str]], special: bool, target: bool) -> list[tuple[list[int], list[int]]]:
    given = {"text_target": some} if target else {"text": some}
    found = tokenizer(**given, is_split_into_words=True, add_special_tokens=special)
    numbers = [[-1 if word is None else word for word in found.word_ids(i)] for i in range(len(some))]
    return list(zip(found["input_ids"], numbers, strict=True))


def _slow(tokenizer: Any, some: list[list[str]], special: bool, target: bool) -> list[tuple[list[int], list[int]]]:
    """A tokenizer that does not tell of which word a token is gets one word at a time."""
    key, known = "text_target" if target else "text", {}
    texts = list(dict.fromkeys(word for sentence in some for word in sentence))
    known = (
        dict(zip(texts, tokenizer(**{key: texts}, add_special_tokens=False)["input_ids"], strict=True)) if texts else {}
    )
    ends = tokenizer(**{key: ""}, add_special_tokens=special)["input_ids"]  # all that such tokenizers add is at the end
    made = []
    for sentence in some:
        ids = [i for word in sentence for i in known[word]] + ends
        words = [number for number, word in enumerate(sentence) for _ in known[word]] + [-1] * len(ends)
        made.append((ids, words))
    return made


def _links(split: Split, made: Mapping[str, Any]) -> Ragged | None:
    """Links of tokens as links of the new tokens of the same words."""
    if split.links is None or split.x_words is None or split.y_words is None:
        return None
    rows = [
        _linked(split.links[i], (split.y_words[i], split.x_words[i]), (made["y_words"][i], made["x_words"][i]))
        for i in range(len(split))
    ]
    return Ragged.of(rows, width=(3,))


def _linked(
    links: NDArray[np.int64], before: Sequence[NDArray[np.int64]], after: Sequence[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Every new token of a linked output word with every new token of its input word; (y, x) words come in pairs."""
    found: dict[tuple[Any, ...], int] = {}
    for old_t, old_l, sure in links:
        pair = before[0][old_t], before[1][old_l]
        if min(pair) >= 0:
            places = (np.flatnonzero(side == word) for side, word in zip(after, pair, strict=True))
            found |= {cell: int(sure) for cell in product(*places)}
    return np.array([(*cell, sure) for cell, sure in found.items()], np.int64).reshape(-1, 3)
