"""Greedy and beam search."""

from itertools import product

import numpy as np
import pytest
import torch

from ktiwprobe import Batch, Corpus, Split
from ktiwprobe.data import BOS, EOS, SPECIALS
from ktiwprobe.models.attend import uniform
from ktiwprobe_paper.decoding import beam_search, greedy
from ktiwprobe_paper.seq2seq import Seq2Seq

LENGTHS = (6, 1, 4, 3, 8, 2, 5, 7)


def make_corpus(words: str) -> Corpus:
    """Eight sources of many lengths."""
    tokens = (*SPECIALS, *words)
    rng = np.random.default_rng(0)
    xs = [rng.integers(4, len(tokens), n).tolist() for n in LENGTHS]
    return Corpus("tiny", "translation", {"train": Split.of(xs, [[EOS]] * len(xs))}, tokens, tokens)


def make_batch(words: str, rows: tuple[int, ...] = tuple(range(8))) -> Batch:
    """The chosen sources, padded; the targets do not matter."""
    return make_corpus(words).split("train").batch(np.array(rows))


def make_model(words: str, **options: object) -> Seq2Seq:
    """A tiny model that is neither sure nor indifferent."""
    torch.manual_seed(5)
    model = Seq2Seq.build(make_corpus(words), Seq2Seq.Options(**{"hidden": 8, **options})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
        model.predict.outer.bias[EOS] += 2
    return model


def with_target(batch: Batch, row: int, y: tuple[int, ...]) -> Batch:
    """One source of `batch`, without its padding, and a target."""
    x, out = batch.x[row : row + 1, : batch.x_lengths[row]], torch.tensor([y])
    return Batch(x, torch.ones_like(x, dtype=torch.bool), batch.x_lengths[row : row + 1], out, out >= 0)


def log_p(model: Seq2Seq, batch: Batch, row: int, y: tuple[int, ...]) -> float:
    """log p of the pieces `y`, an EOS counting only if it is there, by a trace over the whole of it."""
    alone = with_target(batch, row, y)
    with torch.no_grad():
        return model.trace(alone).logits.log_softmax(-1).gather(-1, alone.y.unsqueeze(-1)).sum().item()


def whole(y: list[int], limit: int) -> tuple[int, ...]:
    """An output with the EOS it ended in, if it did."""
    return tuple(y) if len(y) == limit else (*y, EOS)


def candidates(V: int, limit: int) -> list[tuple[int, ...]]:
    """Everything that a search may return: ended by its only EOS, or as long as the limit."""
    others = [piece for piece in range(V) if piece != EOS]
    ended = [(*y, EOS) for n in range(limit) for y in product(others, repeat=n)]
    return ended + list(product(others, repeat=limit))


@pytest.mark.parametrize("options", [{}, {"cell": "gru", "bidirectional": False, "heads": 2}])
def test_greedy_takes_the_likeliest_piece_each_time(options: dict[str, object]) -> None:
    """Read back with the whole output as target, each piece is the argmax: incremental states are those of one call."""
    model, batch = make_model("abcdef", **options), make_batch("abcdef")
    outputs = model.translate(batch, limit=12)
    assert len({len(y) for y in outputs}) > 1
    for row, y in enumerate(outputs):
        alone = with_target(batch, row, whole(y, 12))
        assert torch.equal(model.trace(alone).logits.argmax(-1), alone.y)


def test_a_beam_of_one_is_greedy() -> None:
    """The two searches meet."""
    model, batch = make_model("abcdef"), make_batch("abcdef")
    step, start = model.stepwise(batch)
    assert (
        beam_search(step, start, beam=1, limit=15) == greedy(step, start, limit=15) == model.translate(batch, limit=15)
    )


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all_outputs(power: float) -> None:
    """With room for every output, the search is an enumeration; also of log p per piece."""
    V, limit = 5, 3
    model, batch = make_model("a"), make_batch("a")
    found = model.translate(batch, beam=V**limit, limit=limit, length_power=power)
    everything = candidates(V, limit)
    for row, y in enumerate(found):
        scores = [log_p(model, batch, row, other) / len(other) ** power for other in everything]
        assert whole(y, limit) == everything[int(np.argmax(scores))]


@pytest.mark.parametrize(("beam", "power"), [(1, 0.0), (4, 0.0), (4, 1.0), (30, 0.0)])
def test_a_sentence_alone_and_in_a_batch_is_the_same(beam: int, power: float) -> None:
    """Neither padding nor a neighbour that goes on for longer changes an output."""
    model, batch = make_model("abcdef"), make_batch("abcdef")
    together = model.translate(batch, beam=beam, limit=12, length_power=power)
    alone = [model.translate(make_batch("abcdef", (row,)), beam=beam, limit=12, length_power=power) for row in range(8)]
    assert [[y] for y in together] == alone


def test_a_beam_seldom_does_worse_than_greedy() -> None:
    """Nearly always log p is at least as high, and sometimes higher."""
    model, batch = make_model("abcdef"), make_batch("abcdef")
    gains = []
    for y, z in zip(model.translate(batch, limit=10), model.translate(batch, beam=5, limit=10), strict=True):
        row = len(gains)
        gains.append(log_p(model, batch, row, whole(z, 10)) - log_p(model, batch, row, whole(y, 10)))
    assert sum(gain > -1e-4 for gain in gains) >= 7 and max(gains) > 0.01


def test_outputs_end_before_eos_and_at_the_limit() -> None:
    """No EOS and no BOS is returned, and never more than `limit` pieces."""
    model, batch = make_model("abcdef"), make_batch("abcdef")
    with torch.no_grad():
        model.predict.outer.bias[EOS] = -50
        model.predict.outer.bias[BOS] = -50
        endless = model.translate(batch, beam=3, limit=4)
        model.predict.outer.bias[EOS] = 100
        empty = model.translate(batch, beam=3, limit=4)
    assert all(len(y) == 4 and EOS not in y and BOS not in y for y in endless)
    assert empty == model.translate(batch) == [[]] * 8


def test_translates_under_a_chosen_attention() -> None:
    """A run trained under uniform attention is decoded under it."""
    model, batch = make_model("abcdef"), make_batch("abcdef")
    attend = uniform(batch.x_mask.unsqueeze(1))
    y = model.translate(batch, attend=attend, limit=12)[0]
    alone = with_target(batch, 0, whole(y, 12))
    assert torch.equal(model.trace(alone, attend=uniform(alone.x_mask.unsqueeze(1))).logits.argmax(-1), alone.y)
