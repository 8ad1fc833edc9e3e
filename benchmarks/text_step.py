"""One training step on text the size of Multi30k (batch 16), against a plain implementation in the published style.

The plain one tokenises the sentences of every batch again, packs them for `nn.LSTM`, and takes a log-softmax over all
positions, padding too; ours reads ids that were made once, and is what `ktiwprobe train lstm-seq2seq` runs. Both have
the paper's sizes and see the same invented sentences, turn about, so that a busy machine slows both: `ratio` is the
median over turns and must be at least 1.3. `share` is how much of our step's time goes into recurrent kernels and
matrix products, their own copies included (theirs by torch's profiler, the step's by the clock, without it, both on
shapes met before): at least 80 %.
Run: python -m benchmarks.text_step
"""

import re
import time
from collections import Counter

import numpy as np
import sentencepiece
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.profiler_util import FunctionEvent
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from ktiwprobe import Corpus, Split
from ktiwprobe.data import BOS, EOS, PAD, training_batches
from ktiwprobe.training.threads import keep_memory
from ktiwprobe_paper.seq2seq import Seq2Seq
from ktiwprobe_paper.text.pieces import Pieces

PAIRS, BATCH, V, H = 8000, 16, 8000, 256
TURNS, WARM, PROFILED = 20, 2, 10
RATIO, SHARE = 1.3, 0.8
HEAVY = re.compile(
    r"mkldnn_rnn|lstm|linear_pointwise|^aten::(mm|addmm|bmm|baddbmm|addbmm|linear|matmul|mkldnn_linear|dot|mv)(_|$)"
)


def sentences(rng: np.random.Generator) -> list[str]:
    """Invented words, the frequent ones far more frequent, 12 or so to a sentence."""
    letters = np.array(list("abcdefghijklmnoprstuvwz"))
    words = ["".join(rng.choice(letters, rng.integers(2, 10))) for _ in range(12_000)]
    shares = 1 / np.arange(2, len(words) + 2)
    lengths = rng.normal(12, 4, 2 * PAIRS).clip(4, 35).astype(int)
    drawn = iter(rng.choice(len(words), lengths.sum(), p=shares / shares.sum()))
    return [" ".join(words[next(drawn)] for _ in range(n)) for n in lengths]


class Plain(nn.Module):
    """The paper's translator as one writes it first."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(V, H)
        self.encoder = nn.LSTM(H, H, 2, batch_first=True, bidirectional=True, dropout=0.5)
        self.decoder = nn.LSTM(H, H, 2, batch_first=True, dropout=0.5)
        self.look, self.project = nn.Linear(H, 2 * H), nn.Linear(2 * H, H)
        self.predict = nn.Sequential(nn.Linear(2 * H, H), nn.ReLU(), nn.Linear(H, V))

    def forward(self, x: Tensor, x_lengths: Tensor, y: Tensor, y_lengths: Tensor) -> Tensor:
        """Log p of every output at every position. (B, T, V)"""
        packed = pack_padded_sequence(self.embed(x), x_lengths, batch_first=True, enforce_sorted=False)
        out, (h, c) = self.encoder(packed)
        states, _ = pad_packed_sequence(out, batch_first=True)
        start = tuple(part.view(2, 2, *part.shape[1:]).mean(1) for part in (h, c))
        packed = pack_padded_sequence(self.embed(y), y_lengths, batch_first=True, enforce_sorted=False)
        s, _ = pad_packed_sequence(self.decoder(packed, start)[0], batch_first=True)
        scores = self.look(s) @ states.mT
        alpha = scores.masked_fill((x == PAD).unsqueeze(1), -torch.inf).softmax(-1)
        return F.log_softmax(self.predict(torch.cat([self.project(alpha @ states), s], -1)), -1)


class PlainTraining:
    """Tokenise, pad, step."""

    def __init__(self, pieces: Pieces, xs: list[str], ys: list[str]) -> None:
        self.xs, self.ys, self.model = xs, ys, Plain()
        self.tokenizer = sentencepiece.SentencePieceProcessor(model_proto=pieces.model)
        self.optimiser = torch.optim.Adam(self.model.parameters())
        self.order = np.random.default_rng(0).permutation(len(xs))

    def _ids(self, texts: list[str]) -> tuple[Tensor, Tensor]:
        rows = [torch.tensor([BOS, *self.tokenizer.encode(text), EOS]) for text in texts]
        return pad_sequence(rows, batch_first=True, padding_value=PAD), torch.tensor([len(row) for row in rows])

    def step(self, number: int) -> None:
        rows = self.order[number * BATCH : (number + 1) * BATCH]
        x, x_lengths = self._ids([self.xs[i] for i in rows])
        y, y_lengths = self._ids([self.ys[i] for i in rows])
        self.optimiser.zero_grad()
        log_p = self.model(x, x_lengths, y[:, :-1], y_lengths - 1)
        F.nll_loss(log_p.reshape(-1, V), y[:, 1:].reshape(-1), ignore_index=PAD).backward()
        self.optimiser.step()


class OurTraining:
    """What the trainer does in a step."""

    def __init__(self, pieces: Pieces, xs: list[str], ys: list[str]) -> None:
        split = Split.of([[BOS, *x, EOS] for x in pieces.ids(xs)], [[*y, EOS] for y in pieces.ids(ys)])
        corpus = Corpus("benchmark", "translation", {"train": split}, pieces.tokens, pieces.tokens)
        self.model = Seq2Seq.build(corpus, Seq2Seq.Options()).train()
        self.optimiser = self.model.optimiser(self.model.parameters(), lr=1e-3)
        self.batch = training_batches(corpus, seed=0, size=BATCH)
        self.loss = torch.zeros(())

    def step(self, number: int) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.model.loss(self.batch(number))
        loss.backward()
        self.optimiser.step()
        self.loss += loss.detach()


def seconds(training: PlainTraining | OurTraining, number: int) -> float:
    began = time.perf_counter()
    training.step(number)
    return time.perf_counter() - began


def share_of_heavy(training: OurTraining) -> tuple[float, float, list[tuple[str, float]]]:
    """The share of recurrent kernels and products in a step, in a step slowed by the profiler, and what takes the most.

    The profiler charges every operation the same, so it makes small ones look large.
    """
    numbers = range(WARM + TURNS, WARM + TURNS + PROFILED)
    for number in numbers:  # shapes met for the first time cost more
        training.step(number)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for number in numbers:
            training.step(number)
    bare = sum(seconds(training, number) for number in numbers)
    times: Counter[str] = Counter()
    for event in profile.events():
        times[_work(event)] += event.self_cpu_time_total / 1e6
    total = sum(times.values())
    heavy = sum(spent for name, spent in times.items() if HEAVY.search(name))
    most = [(name, spent / total) for name, spent in times.most_common(8)]
    return heavy / bare, heavy / total, most


def _work(event: FunctionEvent) -> str:
    """The kernel or product that an operation is part of (oneDNN's turn their operands about first), or itself."""
    above = event
    while above is not None:
        if HEAVY.search(above.key):
            return above.key
        above = above.cpu_parent
    return event.key


def main() -> None:
    keep_memory()  # as `ktiwprobe train` and every worker do; here for both
    torch.manual_seed(0)
    texts = sentences(np.random.default_rng(0))
    pieces = Pieces.train(texts, V)
    if len(pieces.tokens) != V:
        raise SystemExit(f"the text gives {len(pieces.tokens)} pieces, not {V}")
    ours, plain = (kind(pieces, texts[:PAIRS], texts[PAIRS:]) for kind in (OurTraining, PlainTraining))
    pairs = np.array([(seconds(ours, n), seconds(plain, n)) for n in range(WARM + TURNS)])[WARM:]
    print(f"ours {np.median(pairs[:, 0]) * 1000:.0f} ms a step, plain {np.median(pairs[:, 1]) * 1000:.0f} ms")
    print(f"ratio {np.median(pairs[:, 1] / pairs[:, 0]):.2f} (at least {RATIO})")
    share, profiled, most = share_of_heavy(ours)
    print(
        f"share of recurrent kernels and products {share:.0%} (at least {SHARE:.0%}), under the profiler {profiled:.0%}"
    )
    print("  " + ", ".join(f"{name.removeprefix('aten::')} {part:.0%}" for name, part in most))


if __name__ == "__main__":
    main()
