"""Right models that look unusual, for test_mutants.py; most change one step of mutants.Right."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ktiwprobe import Batch, Corpus, Trace, choose
from ktiwprobe.data import BOS
from ktiwprobe.models.attend import allowed
from ktiwprobe.models.scoring import log_odds
from mutants import Right, TwoHeads


class ForcedHead(nn.Module):
    """Stands in for nn.MultiheadAttention: one head that keeps what it used, and takes what it is told."""

    batch_first = True

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.attend: Tensor | None = None
        self.used: Tensor | None = None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, key_padding_mask: Tensor | None = None, **_: Any) -> Any:
        scores = self.query(q) @ self.key(k).mT  # (B, T, L)
        assert key_padding_mask is not None
        seen = key_padding_mask.unsqueeze(1) == 0
        self.used = choose(scores.masked_fill(~seen, -torch.inf).softmax(-1), self.attend, seen)
        return self.used @ self.value(v), None


class PlainTransformer(Right):
    """torch's own encoder-decoder with a mask over future outputs, which torch reads to see whether it is causal."""

    def __init__(self, sources: int, targets: int, width: int) -> None:
        nn.Module.__init__(self)
        self.read, self.write, self.place = (nn.Embedding(n, 8) for n in (sources, targets, 32))
        self.net = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, batch_first=True)
        self.cross = ForcedHead(8)
        self.net.decoder.layers[0].multihead_attn = self.cross  # type: ignore[assignment]
        self.say = nn.Linear(8, targets)

    def attention_parameters(self) -> list[nn.Parameter]:
        return [*self.cross.query.parameters(), *self.cross.key.parameters()]

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        source = self.words(batch, gate) + self.place.weight[: batch.x.shape[1]]
        ahead = nn.Transformer.generate_square_subsequent_mask(batch.y.shape[1], device=batch.x.device)
        padding = torch.zeros_like(batch.x_mask, dtype=source.dtype).masked_fill(~batch.x_mask, -torch.inf)
        self.cross.attend = attend
        out = self.net(
            source, self.before(batch), tgt_mask=ahead, src_key_padding_mask=padding, memory_key_padding_mask=padding
        )
        assert self.cross.used is not None
        return Trace(self.say(out), self.cross.used)


class ScoresOnly(Right):
    """Returns log-odds of y and no logits."""

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        trace = super().trace(batch, attend=attend, gate=gate)
        return Trace(None, trace.alpha, log_odds(trace, batch))

    def evaluate(self, batch: Batch, *, attend: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        scores = self.trace(batch, attend=attend).scores[batch.y_mask]  # type: ignore[index]
        return (scores > 0).sum(), batch.y_mask.sum(), F.softplus(-scores).sum()


class Layers(TwoHeads):
    """The second site looks by what the first has seen."""

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        h, s, used = self.states(self.words(batch, gate)), self.before(batch), []
        seen = allowed(self, batch)
        for k, (look, value) in enumerate(zip(self.look, self.value, strict=True)):
            own = (look(s) @ h.mT).masked_fill(~seen, -torch.inf).softmax(-1)
            told = None if attend is None else attend[:, min(k, attend.shape[1] - 1)]
            used.append(choose(own, told, seen))
            s = s + value(used[-1] @ h)
        return Trace(self.say(torch.cat([s, s], -1)), torch.stack(used, 1))


class Causal(Right):
    """Output t looks at inputs 0 to t."""

    def allowed(self, batch: Batch) -> Tensor:
        t, l = (torch.arange(n, device=batch.x.device) for n in (batch.y.shape[1], batch.x.shape[1]))  # noqa: E741
        return batch.x_mask.unsqueeze(1) & (l <= t.unsqueeze(1))


class Windowed(TwoHeads):
    """One site looks everywhere, the other two positions back."""

    def allowed(self, batch: Batch) -> Tensor:
        t, l = (torch.arange(n, device=batch.x.device) for n in (batch.y.shape[1], batch.x.shape[1]))  # noqa: E741
        near = ((t.unsqueeze(1) - l).abs() <= 2) | (l == 0)  # (T, L)
        everywhere = batch.x_mask.unsqueeze(1).expand(-1, len(t), -1)
        return torch.stack([everywhere, everywhere & near], 1)


class Sinks(Right):
    """Part of the weight goes to a learned sink, so that rows sum to less than 1."""

    sinks = True

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.sink = nn.Parameter(torch.zeros(1))

    def own(self, s: Tensor, h: Tensor, batch: Batch) -> Tensor:
        scores = self.scores(s, h, batch)
        return torch.cat([scores, self.sink.expand(*scores.shape[:-1], 1)], -1).softmax(-1)[..., :-1]


class HalfPrecision(Right):
    """Weights in bfloat16."""

    @classmethod
    def build(cls, corpus: Corpus, options: Any) -> Right:
        return super().build(corpus, options).bfloat16()


class Bahdanau(Right):
    """Recurrent, with additive attention."""

    def __init__(self, sources: int, targets: int, width: int) -> None:
        super().__init__(sources, targets, width)
        self.gru, self.decode = nn.GRU(width, width, batch_first=True), nn.GRU(width, width, batch_first=True)
        self.key, self.query, self.score = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)
        del self.look, self.mix

    def attention_parameters(self) -> list[nn.Parameter]:
        return [p for part in (self.key, self.query, self.score) for p in part.parameters()]

    def states(self, e: Tensor) -> Tensor:
        return self.gru(e)[0]

    def before(self, batch: Batch) -> Tensor:
        y = torch.cat([torch.full_like(batch.y[:, :1], BOS), batch.y[:, :-1]], 1)
        return self.decode(self.write(y) + self.place.weight[: y.shape[1]])[0]

    def scores(self, s: Tensor, h: Tensor, batch: Batch) -> Tensor:
        scores = self.score(torch.tanh(self.query(s).unsqueeze(2) + self.key(h).unsqueeze(1))).squeeze(-1)
        return scores.masked_fill(~allowed(self, batch), -torch.inf).unsqueeze(1)


class LooksUpTwice(Right):
    """Embeds its words by two tables, one by F.embedding, and gates both."""

    def __init__(self, sources: int, targets: int, width: int) -> None:
        super().__init__(sources, targets, width)
        self.table = nn.Parameter(torch.randn(sources, width))

    def words(self, batch: Batch, gate: Tensor | None) -> Tensor:
        again = F.embedding(batch.x, self.table)
        return super().words(batch, gate) + (again if gate is None else again * gate.unsqueeze(-1))


class HashedHonest(Right):
    """Adds a table of classes of words, and gates the sum."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.classes = nn.Embedding(5, self.read.embedding_dim)

    def words(self, batch: Batch, gate: Tensor | None) -> Tensor:
        e = self.read(batch.x) + self.classes(batch.x % 5)
        return e if gate is None else e * gate.unsqueeze(-1)


class FromCharacters(Right):
    """Computes each embedding from two tables by a curve, and gates the result."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        del self.read
        self.high, self.low = nn.Embedding(8, sizes[-1]), nn.Embedding(4, sizes[-1])

    def words(self, batch: Batch, gate: Tensor | None) -> Tensor:
        e = torch.tanh(self.high(batch.x // 4) + self.low(batch.x % 4))
        return e if gate is None else e * gate.unsqueeze(-1)


class Coverage(Right):
    """Looks away from where it has looked: weights of one row change where the next looks."""

    def trace(self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None) -> Trace:
        h, s = self.states(self.words(batch, gate)), self.before(batch)
        seen, past, used = allowed(self, batch), torch.zeros_like(batch.x, dtype=torch.float32), []
        for t in range(s.shape[1]):
            scores = self.look[0](s[:, t : t + 1]) @ h.mT - 0.3 * past.unsqueeze(1)
            given = None if attend is None else attend.expand(len(h), s.shape[1], -1)[:, t : t + 1]
            used.append(choose(scores.masked_fill(~seen, -torch.inf).softmax(-1), given, seen))
            past = past + used[-1][:, 0]
        alpha = torch.cat(used, 1)
        return Trace(self.say(torch.cat([self.value[0](alpha @ h), s], -1)), alpha)


class NoEmbedding(Right):
    """Multiplies one-hot vectors by a matrix: float features, and no table is looked up."""

    def __init__(self, sources: int, targets: int, width: int) -> None:
        super().__init__(sources, targets, width)
        self.sources, self.read = sources, nn.Linear(sources, width, bias=False)

    def words(self, batch: Batch, gate: Tensor | None) -> Tensor:
        e = self.read(F.one_hot(batch.x, self.sources).float())
        return e if gate is None else e * gate.unsqueeze(-1)


class DotProduct(Right):
    """Attention without parameters of its own."""

    attention_parameters = property()  # type: ignore[assignment]

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        del self.look

    def scores(self, s: Tensor, h: Tensor, batch: Batch) -> Tensor:
        return (s @ h.mT).masked_fill(~allowed(self, batch), -torch.inf).unsqueeze(1)


class StartsConstant(Right):
    """Says the same of everything until it has learned: its output weights begin at zero."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        nn.init.zeros_(self.say.weight)


class HooksItsEmbedding(Right):
    """Keeps the gradient of its embeddings while it is trained."""

    def words(self, batch: Batch, gate: Tensor | None) -> Tensor:
        e = super().words(batch, gate)
        if self.training:
            e.register_hook(lambda gradient: gradient)
        return e


MODELS = [
    Right,
    TwoHeads,
    PlainTransformer,
    ScoresOnly,
    Layers,
    Causal,
    Windowed,
    Sinks,
    HalfPrecision,
    Bahdanau,
    LooksUpTwice,
    HashedHonest,
    FromCharacters,
    Coverage,
    NoEmbedding,
    DotProduct,
    StartsConstant,
    HooksItsEmbedding,
]
