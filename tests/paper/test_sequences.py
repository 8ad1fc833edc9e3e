"""The tasks of symbols: what occurs with what, and that fresh samples are functions of seed and step."""

from __future__ import annotations

import numpy as np
import pytest

from ktiwprobe.data import EOS, SPECIALS
from ktiwprobe.errors import OptionError
from ktiwprobe.plugins.options import fill
from ktiwprobe_paper.sequences import Copy, Keyword, Permute

FIRST = len(SPECIALS)


def load(task, **options):
    return task().load(fill(task.Options, options, space="task"))


def drawn(corpus, size=200, seed=0, step=0):
    batch = corpus.splits["train"].batch(seed, step, size)
    return batch.x.numpy(), batch.y.numpy()


def test_copy_says_its_input_again():
    """x = y = 40 different symbols and </s>; the link of output t is position t."""
    corpus = load(Copy)
    x, y = drawn(corpus)
    assert x.shape == (200, 41)
    assert (x == y).all()
    assert (x[:, -1] == EOS).all()
    assert all(len(set(row)) == 41 for row in x.tolist())
    validation = corpus.split("validation")
    assert (validation.links[0] == np.stack([np.arange(40), np.arange(40), np.ones(40)], 1)).all()


def test_hard_copying_always_has_the_same_symbols():
    """With vocabulary=40 every sequence is a permutation of one set; with 60 sets differ."""
    hard, easy = (drawn(load(Copy, vocabulary=size))[0] for size in (40, 60))
    assert {tuple(sorted(row)) for row in hard.tolist()} == {(EOS, *range(FIRST, FIRST + 40))}
    assert len({tuple(sorted(row)) for row in easy.tolist()}) == 200
    assert len({tuple(row) for row in hard.tolist()}) == 200


def test_the_mixture_has_two_sets():
    """Each sequence is of one of two disjoint sets of 40, each about as often."""
    x, _ = drawn(load(Copy, vocabulary=40, sets=2), 400)
    sets = (x[:, :-1] - FIRST) // 40
    assert (sets == sets[:, :1]).all()
    assert 150 < sets[:, 0].sum() < 250
    assert load(Copy, vocabulary=40, sets=2).source_size == FIRST + 80


def test_symbols_are_drawn_uniformly():
    """Every symbol is as likely at every position."""
    x, _ = drawn(load(Copy, length=3, vocabulary=5), 20000)
    shares = np.stack([(x[:, :3] == FIRST + symbol).mean(0) for symbol in range(5)])
    assert np.abs(shares - 0.2).max() < 0.015


def test_permute_has_one_order_for_all():
    """y is x in the order of the links, which no seed of a run changes and the task's seed does."""
    corpus = load(Permute)
    order = corpus.split("validation").links[0][:, 1]
    assert sorted(order) == list(range(40))
    assert (order != np.arange(40)).any()
    for seed in (0, 1):
        x, y = drawn(corpus, seed=seed)
        assert (y[:, :-1] == x[:, order]).all()
    assert (load(Permute, seed=1).split("validation").links[0][:, 1] != order).any()


def test_keyword_occurs_once_or_never():
    """Positive if and only if word 1 is there, once; labels are balanced, places uniform, links at the keyword."""
    corpus = load(Keyword)
    x, y = drawn(corpus, 4000)
    assert x.shape == (4000, 40)
    assert ((x == FIRST).sum(1) == y[:, 0]).all()
    assert 0.46 < y.mean() < 0.54
    places = np.nonzero(x == FIRST)[1]
    assert np.bincount(places, minlength=40).min() > 20
    others = np.bincount(x[x != FIRST], minlength=FIRST + 40)[FIRST + 1 :]
    assert others.min() > 0.9 * others.max() * 0.9
    split = corpus.split("validation")
    for row in range(20):
        assert [link[1] for link in split.links[row]] == np.flatnonzero(split.x[row] == FIRST).tolist()


@pytest.mark.parametrize("task", [Copy, Permute, Keyword])
def test_fresh_samples_are_functions_of_seed_and_step(task):
    """The same step gives the same batch, another step or seed another one; the task's seed counts too."""
    corpus = load(task)
    same, again, other_step, other_seed = (drawn(corpus, 8, *at)[0] for at in ((3, 5), (3, 5), (3, 6), (4, 5)))
    assert (same == again).all()
    assert (same != other_step).any()
    assert (same != other_seed).any()
    assert (drawn(load(task, seed=1), 8, 3, 5)[0] != same).any()


def test_validation_and_test_differ_from_training():
    """No sample is drawn from the stream that training uses."""
    corpus = load(Copy)
    rows = {tuple(row) for row in drawn(corpus, 200)[0].tolist()}
    assert not any(tuple(corpus.split(name).x[i]) in rows for name in ("validation", "test") for i in range(20))


def test_too_few_symbols_are_refused():
    """A sequence of different symbols needs as many."""
    with pytest.raises(OptionError, match="needs vocabulary=40 or more"):
        load(Copy, vocabulary=39)
