"""The dictionary a model has learned: for an input word, the outputs it stands for.

A model with attention is asked what it would say if it looked at the word alone, in sentences that have it (β of every
output, not only of the right one). A model without attention is asked for β of every output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ktiwprobe.data import SPECIALS, Batch, Corpus, Split
from ktiwprobe.errors import CorpusError, UnknownNameError, UsageError
from ktiwprobe.extraction import Extractor
from ktiwprobe.recipe import choose_device
from ktiwprobe.signals import Signal

MARK = "▁"  # with which SentencePiece begins a word
MOST_SENTENCES = 64


@dataclass(frozen=True)
class Entry:
    """What a run says for one word."""

    run: str
    word: str
    outputs: tuple[str, ...]  # the likeliest first
    p: tuple[float, ...]  # how likely each is, if the word alone is seen
    occurrences: int | None  # that were asked; None where the model needs no sentence


def look_up(extractor: Extractor, word: str, *, at: int | str = "best", top: int = 5) -> Entry:
    """The `top` outputs of `word` for a run at a step."""
    corpus = extractor.corpus
    token = find_token(corpus, word)
    model = extractor.model(extractor.step(at))
    with torch.no_grad():
        if hasattr(model, "trace"):
            p, occurrences = _attending(extractor, model, token)
        else:
            p, occurrences = _alone(extractor, model, token), None
    p[: len(SPECIALS)] = 0 if corpus.kind == "translation" else p[: len(SPECIALS)]
    best = p.argsort(descending=True)[:top].tolist()
    outputs = tuple(corpus.target_tokens[i] for i in best)
    return Entry(extractor.run.name, corpus.source_tokens[token], outputs, tuple(p[best].tolist()), occurrences)


def find_token(corpus: Corpus, word: str) -> int:
    """The id of a word: as it is, or as a SentencePiece that begins a word."""
    ids = {token: i for i, token in enumerate(corpus.source_tokens)}
    for form in (word, MARK + word, word.lower(), MARK + word.lower()):
        if form in ids:
            return ids[form]
    raise UnknownNameError(f"input word of task {corpus.task}", word, _near(word, corpus.source_tokens))


def _near(word: str, tokens: Sequence[str]) -> list[str]:
    """A few words to choose from, not thousands."""
    from difflib import get_close_matches

    return get_close_matches(word, [token.removeprefix(MARK) for token in tokens], n=5, cutoff=0.3)


def _attending(extractor: Extractor, model: Any, token: int) -> tuple[Tensor, int]:
    """The mean output distribution over occurrences of the word and over t, all rows looking at it alone. (V,)"""
    split = extractor.part
    rows = np.repeat(np.arange(len(split)), split.x.lengths)[split.x.values == token]
    rows = np.unique(rows)[:MOST_SENTENCES]
    if not len(rows):
        said = extractor.corpus.source_tokens[token]
        raise CorpusError(f"no sentence of the {extractor.split} split has {said!r}: try --split train")
    batch = split.batch(rows).to(choose_device(extractor.device))
    here = ((batch.x == token) & batch.x_mask).float()
    attend = (here / here.sum(1, keepdim=True)).unsqueeze(1)  # (B, 1, L): shared where the word occurs twice
    logits = model.trace(batch, attend=attend.unsqueeze(1) if getattr(model, "sites", ()) else attend).logits
    if logits is None:
        raise UsageError(f"model {extractor.recipe.model!r} tells of the right output only: it has no dictionary")
    return logits[batch.y_mask].float().softmax(-1).mean(0).cpu(), len(rows)


def _alone(extractor: Extractor, model: Any, token: int) -> Tensor:
    """p of every output for the word alone. (V,)"""
    V, device = extractor.corpus.target_size, choose_device(extractor.device)
    x, y = torch.tensor([[token]]), torch.arange(V).unsqueeze(0)
    masks = torch.ones_like(x, dtype=torch.bool), torch.ones_like(y, dtype=torch.bool)
    batch = Batch(x, masks[0], torch.tensor([1]), y, masks[1]).to(device)
    return model.beta(batch)[0, :, 0].float().sigmoid().cpu()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Keyword:
    """What one input word stands for, by the β of the outputs that it was seen with."""

    word: str
    count: int  # occurrences in the split
    outputs: tuple[str, ...]  # the highest mean β first
    p: tuple[float, ...]


def keywords(corpus: Corpus, part: Split, beta: Signal, *, top: int = 3) -> dict[int, Keyword]:
    """The dictionary that a stored β holds, by the input word's id: for each pair of input and output, its mean p.

    Unlike `look_up` it needs no model, but knows only outputs that stand in a sentence with the word. A classifier of
    two labels tells of both at once.
    """
    V, skip = corpus.target_size, len(SPECIALS)
    sentence = beta.sentence_of_row[np.repeat(np.arange(len(beta.lengths)), beta.lengths)]
    x = part.x.values[part.x.offsets[sentence] + beta.positions]
    y = np.repeat(part.y.values, beta.lengths)
    p = 1 / (1 + np.exp(-beta.one_site().values[0].clip(-80, 80).astype(np.float64)))
    if corpus.kind == "classification" and V == 2:
        x, y, p = np.tile(x, 2), np.concatenate([y, 1 - y]), np.concatenate([p, 1 - p])
    kept = (x >= skip) & ((y >= skip) | (corpus.kind == "classification"))
    pairs, inverse = np.unique(x[kept] * V + y[kept], return_inverse=True)
    means = np.bincount(inverse, p[kept]) / np.bincount(inverse)
    counts = np.bincount(part.x.values, minlength=corpus.source_size)
    order = np.lexsort((-means, pairs // V))  # word by word, the highest first
    found: dict[int, Keyword] = {}
    for rows in np.split(order, np.flatnonzero(np.diff(pairs[order] // V)) + 1) if len(order) else ():
        word, best = int(pairs[rows[0]] // V), rows[:top]
        outputs = tuple(corpus.target_tokens[i] for i in pairs[best] % V)
        found[word] = Keyword(corpus.source_tokens[word], int(counts[word]), outputs, tuple(means[best].tolist()))
    return found
