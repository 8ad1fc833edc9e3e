"""A plugin for tests: a task, an endless task, an attention model and a model that fits itself, all tiny and real.

Hand it to `build_registry(extra={"tiny": tiny})`; a subprocess imports it from tests/ in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ktiwprobe import Batch, Corpus, Split, TorchModel, Trace, choose, hookimpl, option
from ktiwprobe.data import BOS, EOS, SPECIALS, each_token_a_word

WORDS = 8
SOURCE = (*SPECIALS, *(f"a{i}" for i in range(WORDS)))
TARGET = (*SPECIALS, *(f"b{i}" for i in range(WORDS)))


def make_split(size: int, rng: np.random.Generator) -> Split:
    """Sentences of 2 to 6 words and </s>, said word for word in the other language, in the same order."""
    xs = [[*rng.integers(4, 4 + WORDS, rng.integers(2, 7)).tolist(), EOS] for _ in range(size)]
    ys = [[*(4 + (i - 4 + 3) % WORDS for i in x[:-1]), EOS] for x in xs]
    return Split.of(xs, ys, [[(t, t, 1) for t in range(len(x))] for x in xs])


class TinyTask:
    """A translation task of 40 training, 20 validation and 10 test sentences; every word has one translation."""

    training_defaults: ClassVar[dict[str, Any]] = {"steps": 30, "batch": 8, "lr": 0.03, "checkpoints": "every:10"}

    @dataclass(frozen=True)
    class Options:
        """What the corpus is."""

        sentences: int = option(40, low=0, help="in the training split")
        variety: int = option(0, low=0, help="seed of the corpus")

    def load(self, options: Options) -> Corpus:
        rng = np.random.default_rng(options.variety)
        sizes = {"train": options.sentences, "validation": 20, "test": 10}
        splits = {name: make_split(size, rng) for name, size in sizes.items()}
        return each_token_a_word(Corpus("tiny-task", "translation", splits, SOURCE, TARGET))


class FreshSentences:
    """A stream."""

    def batch(self, seed: int, step: int, size: int) -> Batch:
        return make_split(size, np.random.default_rng([seed, step])).batch(np.arange(size))


class TinyStream:
    """The same language, training on endless fresh sentences."""

    training_defaults: ClassVar[dict[str, Any]] = {"batch": 8, "checkpoints": "every:10"}

    def load(self, options: Any) -> Corpus:
        splits = {"train": FreshSentences(), "validation": make_split(20, np.random.default_rng(0))}
        return Corpus("tiny-stream", "translation", splits, SOURCE, TARGET)


class TinyModel(TorchModel):
    """Attention over embeddings; the query is the last output and the position. Dropout, so that RNG matters."""

    default_task = "tiny-task"

    @dataclass(frozen=True)
    class Options:
        """Sizes."""

        width: int = option(8, low=1, help="size of embeddings")
        dropout: float = option(0.2, low=0.0, high=1.0, help="on the context")
        heads: int = option(1, low=1, help="with more than one, alpha has sites")

    def __init__(self, sources: int, targets: int, options: Options) -> None:
        super().__init__()
        D = options.width
        self.read, self.write, self.place = nn.Embedding(sources, D), nn.Embedding(targets, D), nn.Embedding(32, D)
        self.look = nn.ModuleList(nn.Linear(D, D) for _ in range(options.heads))
        self.say = nn.Linear(2 * D, targets)
        self.dropout = options.dropout
        self.sites = tuple(f"h{k}" for k in range(options.heads)) if options.heads > 1 else ()

    @classmethod
    def build(cls, corpus: Corpus, options: Options) -> TinyModel:
        return cls(corpus.source_size, corpus.target_size, options)

    def attention_parameters(self) -> list[nn.Parameter]:
        return list(self.look.parameters())

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        T, L = batch.y.shape[1], batch.x.shape[1]
        e = self.read(batch.x)  # (B, L, D)
        e = e if gate is None else e * gate.to(e.dtype).unsqueeze(-1)
        h = e + self.place.weight[:L]
        before = torch.cat([torch.full_like(batch.y[:, :1], BOS), batch.y[:, :-1]], 1)
        s = self.write(before) + self.place.weight[:T]  # (B, T, D)
        seen = batch.x_mask.unsqueeze(1)  # (B, 1, L)
        own = [(look(s) @ h.mT).masked_fill(~seen, -torch.inf).softmax(-1) for look in self.look]  # each (B, T, L)
        alpha = choose(torch.stack(own, 1) if self.sites else own[0], attend, seen)
        context = (alpha.mean(1) if self.sites else alpha) @ h  # (B, T, D)
        context = F.dropout(context, self.dropout, self.training)
        return Trace(self.say(torch.cat([context, s], -1)), alpha)


class TinyCount:
    """How often each word stood in a sentence with each output: word knowledge without attention or gradient."""

    default_task = "tiny-task"

    def __init__(self, sources: int, targets: int) -> None:
        self.counts = torch.ones(sources, targets, dtype=torch.float64)

    @classmethod
    def build(cls, corpus: Corpus, options: Any) -> TinyCount:
        return cls(corpus.source_size, corpus.target_size)

    def fit(self, corpus: Corpus, save: Callable[[int], None]) -> None:
        split = corpus.split("train")
        save(0)
        for row in range(len(split)):
            x, y = torch.from_numpy(split.x[row]), torch.from_numpy(split.y[row])
            self.counts.index_put_((x[:, None], y[None, :]), torch.tensor(1.0).double(), accumulate=True)
        save(1)

    def state(self) -> dict[str, Tensor]:
        return {"counts": self.counts}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.counts = state["counts"]

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        p = self.counts / self.counts.sum(1, keepdim=True)  # (sources, targets)
        mixed = (p[batch.x] * batch.x_mask.unsqueeze(-1)).sum(1) / batch.x_mask.sum(1, keepdim=True)  # (B, V)
        nll = -mixed.gather(1, batch.y).log() * batch.y_mask  # (B, T)
        right = (mixed.argmax(-1, keepdim=True) == batch.y) & batch.y_mask
        return right.sum(), batch.y_mask.sum(), nll.sum()

    def beta(self, batch: Batch) -> Tensor:
        p = self.counts / self.counts.sum(1, keepdim=True)
        return p[batch.x].gather(2, batch.y.unsqueeze(1).expand(-1, batch.x.shape[1], -1)).logit().mT  # (B, T, L)


@hookimpl
def register_tasks(register: Any) -> None:
    """Two tasks."""
    register("tiny-task", TinyTask, summary="40 sentences")
    register("tiny-stream", TinyStream, summary="endless")


@hookimpl
def register_models(register: Any) -> None:
    """Two models."""
    register("tiny-model", TinyModel, summary="embedding attention")
    register("tiny-count", TinyCount, summary="co-occurrence counts")


def install(folder: Path, name: str, module: str) -> None:
    """What pip leaves of a distribution with one entry point."""
    info = folder / f"{name}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[ktiwprobe]\n{name} = {module}\n")
