"""Mistakes of a task that fit every type and shape, found by what any sensible corpus has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ktiwprobe.corpus.split import Split
from ktiwprobe.corpus.tokens import BOS, EOS, PAD
from ktiwprobe.testing.outcome import Failed, Skipped

if TYPE_CHECKING:
    from ktiwprobe.testing.tasks import TaskCase

ENOUGH = 20  # examples, or links, below which chance could look like a mistake
MOST_SEEN = 0.9  # share of validation sentences that may stand in the training split
CLEARLY = 0.7  # entropy of other links, as a share of that of the links given, which shows a mistake


def padding_is_not_text(case: TaskCase) -> None:
    """No sentence contains the padding id, and an output begins without <s> and ends in </s> everywhere or nowhere."""
    for name, split in case.finite.items():
        if (split.x.values == PAD).any():
            raise Failed(f"split {name} has the padding id {PAD} inside a sentence: number words from {EOS + 2} on")
        if case.corpus.kind != "translation" or len(split) == 0:
            continue
        first, last = split.y.values[split.y.offsets[:-1]], split.y.values[split.y.offsets[1:] - 1]
        if (first == BOS).all():
            raise Failed(f"every output of split {name} begins with <s>: leave it out, a model shifts y itself")
        if (last == EOS).any() and not (last == EOS).all():
            raise Failed(f"some outputs of split {name} end in </s> and some do not: end all of them alike")


def labels_differ(case: TaskCase) -> None:
    """A classification task has several labels, and no input that spells them out."""
    if case.corpus.kind != "classification":
        raise Skipped("not a classification task")
    for name, split in case.finite.items():
        labels = split.y.values[split.y.offsets[:-1]]
        if len(labels) < ENOUGH or (split.y.lengths != 1).any():
            continue
        if len(np.unique(labels)) == 1:
            raise Failed(f"all {len(labels)} examples of split {name} have the same label: are labels read correctly?")
        for where, place in (("first", split.x.offsets[:-1]), ("last", split.x.offsets[1:] - 1)):
            tokens = split.x.values[place]
            pairs = np.unique(np.stack([tokens, labels], 1), axis=0)
            if len(pairs) == len(np.unique(tokens)) == len(np.unique(labels)):
                raise Failed(
                    f"the {where} input of split {name} tells the label, one token for each: leave it out of x"
                )


def validation_is_new(case: TaskCase) -> None:
    """The validation split is not the training split."""
    train, validation = case.finite.get("train"), case.finite.get("validation")
    if train is None or validation is None or len(validation) < ENOUGH:
        raise Skipped("too few sentences to tell")
    seen = {(train.x[i].tobytes(), train.y[i].tobytes()) for i in range(len(train))}
    share = np.mean([(validation.x[i].tobytes(), validation.y[i].tobytes()) in seen for i in range(len(validation))])
    if share > MOST_SEEN:
        raise Failed(f"{share:.0%} of the validation sentences are in the training split: keep the two apart")


def links_join_words(case: TaskCase) -> None:
    """Gold links (t, l) join words that go together, more than (l, t) or their neighbours would."""
    for name, split in case.finite.items():
        if split.links is None or len(split.links.values) < ENOUGH:
            continue
        given = _uncertainty(split, split.links.values[:, :2])
        if given is None or given == 0:
            continue
        t, l = split.links.values[:, 0], split.links.values[:, 1]  # noqa: E741
        for what, t2, l2 in (("swapped", l, t), ("one input earlier", t, l - 1), ("one input later", t, l + 1)):
            other = _uncertainty(split, np.stack([t2, l2], 1))
            if other is not None and other < CLEARLY * given:
                raise Failed(
                    f"the links of split {name} would fit its words better {what} (entropy {other:.2f}, not {given:.2f}"
                    " bits): each must be (t, l, sure), output before input, counted from 0"
                )


def _uncertainty(split: Split, cells: NDArray[np.int64]) -> float | None:
    """How many bits the output word of a link takes once its input word is known; None if too few links are inside."""
    if split.links is None:
        return None
    row = np.repeat(np.arange(len(split)), split.links.lengths)
    t, l = cells[:, 0], cells[:, 1]  # noqa: E741
    inside = (t >= 0) & (l >= 0) & (t < split.y.lengths[row]) & (l < split.x.lengths[row])
    if inside.mean() < 0.5:
        return None
    row, t, l = row[inside], t[inside], l[inside]  # noqa: E741
    x, y = split.x.values[split.x.offsets[row] + l], split.y.values[split.y.offsets[row] + t]
    return _entropy(np.stack([x, y], 1)) - _entropy(x[:, None])


def _entropy(rows: NDArray[np.int64]) -> float:
    counts = np.unique(rows, axis=0, return_counts=True)[1]
    p = counts / counts.sum()
    return float(-(p * np.log2(p)).sum())


def words_spell_their_tokens(case: TaskCase) -> None:
    """Where words are given, a token is part of the word that it is numbered with."""
    given = {
        name: split for name, split in case.finite.items() if split.x_words is not None and split.x_text is not None
    }
    if not given:
        raise Skipped("the task does not give its words")
    for name, split in given.items():
        pairs = _tokens_and_words(split, case.corpus.source_tokens)
        apart = [pair for pair in pairs if pair[0] not in pair[1]]
        if len(pairs) >= ENOUGH and len(apart) > len(pairs) / 2:
            raise Failed(
                f"the words of split {name} do not spell their tokens ({apart[0][0]!r} as part of {apart[0][1]!r}): "
                "number words from 0 in x_words"
            )


def _tokens_and_words(split: Split, tokens: Sequence[str]) -> list[tuple[str, str]]:
    """Letters and digits of ordinary tokens beside the words that they are numbered with, of a few sentences."""
    if split.x_words is None or split.x_text is None:
        return []
    pairs = []
    for i in range(min(len(split), 50)):
        for token, word in zip(split.x[i], split.x_words[i], strict=True):
            text = str(tokens[token])
            plain = "".join(c for c in text if c.isascii() and c.isalnum()).lower()
            if (
                plain
                and isinstance(tokens[token], str)
                and not text.startswith("<")
                and 0 <= word < len(split.x_text[i])
            ):
                pairs.append((plain, split.x_text[i][word].lower()))
    return pairs


CHECKS = (padding_is_not_text, labels_differ, validation_is_new, links_join_words, words_spell_their_tokens)
