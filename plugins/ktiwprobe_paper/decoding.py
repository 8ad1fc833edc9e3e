"""Greedy and beam search over any step function, batched over sentences and beams; knows no model."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ktiwprobe.data import BOS, EOS

Carry = tuple[Tensor, ...]  # decoder states, rows (sentence, beam) in dimension -2


class Step(Protocol):
    """One step of a decoder."""

    def __call__(self, tokens: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The last pieces (B, K) and the states before them to logits (B, K, V) and the states after."""
        ...


class Beams(NamedTuple):
    """Partial outputs of each sentence, the likeliest first."""

    tokens: Tensor  # (B, K, 1 + steps): BOS, then pieces; EOS repeated once an output has ended
    scores: Tensor  # (B, K): log p of the whole, -inf where a beam is not in use
    done: Tensor  # (B, K)


@torch.no_grad()
def greedy(step: Step, carry: Carry, *, limit: int) -> list[list[int]]:
    """The likeliest piece each time, at most `limit`; ids without EOS, a list for each sentence."""
    tokens = carry[0].new_full((carry[0].shape[-2], 1), BOS, dtype=torch.long)  # (B, 1 + steps)
    done = tokens == EOS
    for _ in range(limit):
        logits, carry = step(tokens[:, -1:], carry)
        tokens = torch.cat([tokens, logits.argmax(-1)], 1)
        done |= tokens[:, -1:] == EOS
        if bool(done.all()):
            break
    return _until_eos(tokens)


@torch.no_grad()
def beam_search(
    step: Step, carry: Carry, *, beam: int = 5, limit: int = 100, length_power: float = 0.0
) -> list[list[int]]:
    """The output with the highest log p / length^`length_power` among the `beam` kept; ids without EOS.

    The length counts EOS; an output that reaches `limit` pieces ends without one. The default power, 0, compares log p
    itself, which only falls as an output grows: a sentence is finished as soon as its first beam is.
    """
    beams = _first_beams(carry[0], beam)
    carry = tuple(part.repeat_interleave(beam, -2) for part in carry)
    for _ in range(limit):
        logits, carry = step(beams.tokens[..., -1], carry)
        beams, parent = advance(beams, logits)
        carry = _follow(carry, parent)
        ended = beams.done | beams.scores.isneginf() if length_power else beams.done[:, 0]
        if bool(ended.all()):
            break
    return _until_eos(_best(beams, length_power))


def advance(beams: Beams, logits: Tensor) -> tuple[Beams, Tensor]:
    """The K likeliest of all continuations by one piece, and which beam each continues. parent (B, K)"""
    K, V = logits.shape[1:]
    width = min(K, V)
    top, pieces = logits.topk(width)  # (B, K, width)
    gain = top - logits.logsumexp(-1, keepdim=True)
    stay = torch.full_like(gain, -torch.inf).index_fill_(-1, torch.zeros(1, dtype=torch.long, device=gain.device), 0)
    done = beams.done.unsqueeze(-1)
    gain, pieces = torch.where(done, stay, gain), pieces.masked_fill(done, EOS)
    scores, place = (beams.scores.unsqueeze(-1) + gain).flatten(1).topk(K)  # (B, K)
    parent, piece = place // width, pieces.flatten(1).gather(1, place)
    before = beams.tokens.gather(1, parent.unsqueeze(-1).expand_as(beams.tokens))
    tokens = torch.cat([before, piece.unsqueeze(-1)], -1)
    return Beams(tokens, scores, beams.done.gather(1, parent) | (piece == EOS)), parent


def _first_beams(like: Tensor, K: int) -> Beams:
    """K beams for each sentence, of which only the first is in use."""
    B = like.shape[-2]
    tokens = like.new_full((B, K, 1), BOS, dtype=torch.long)
    scores = like.new_full((B, K), -torch.inf)
    scores[:, 0] = 0
    return Beams(tokens, scores, torch.zeros_like(scores, dtype=torch.bool))


def _follow(carry: Carry, parent: Tensor) -> Carry:
    """The states of the beams that were continued."""
    B, K = parent.shape
    rows = (torch.arange(B, device=parent.device).unsqueeze(1) * K + parent).flatten()  # (B * K,)
    return tuple(part.index_select(-2, rows) for part in carry)


def _best(beams: Beams, length_power: float) -> Tensor:
    """The tokens of the best beam of each sentence. (B, 1 + steps)"""
    steps = beams.tokens.shape[-1] - 1
    length = ((beams.tokens != EOS).sum(-1)).clamp_max(max(steps, 1))  # BOS stands in for EOS in the count
    best = (beams.scores / length**length_power).argmax(1)  # (B,)
    return beams.tokens[torch.arange(len(best), device=best.device), best]


def _until_eos(tokens: Tensor) -> list[list[int]]:
    """What stands between BOS and the first EOS, or the end."""
    rows = [row[1:] for row in tokens.tolist()]
    return [row[: row.index(EOS)] if EOS in row else row for row in rows]
