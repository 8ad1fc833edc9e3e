"""Check one (type, kind) pair: build a tiny network, probe it with ktiwprobe, compare with the reference."""

from __future__ import annotations

import dataclasses
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers
from benchmarks.models.configs import BOS, EOS, FIRST_WORD, LABELS, MASK, PAD, VOCABULARY, tiny_config
from benchmarks.models.mechanisms import acting
from benchmarks.models.reference import NoReferenceError, Reference, Sentence
from numpy.typing import NDArray
from torch import Tensor
from transformers.models.auto import modeling_auto as auto

from ktiwprobe import Batch, build_registry
from ktiwprobe.errors import KtiwprobeError
from ktiwprobe.probes.probing import probe
from ktiwprobe_transformers.classifier import HfClassifier
from ktiwprobe_transformers.language import HfCausalLm, HfMaskedLm
from ktiwprobe_transformers.seq2seq import HfSeq2Seq
from ktiwprobe_transformers.tracer import as_model

NAMES = {
    "causal": auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "masked": auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "classifier": auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    "seq2seq": auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
}
MODELS: dict[str, Any] = {
    "causal": HfCausalLm,
    "masked": HfMaskedLm,
    "classifier": HfClassifier,
    "seq2seq": HfSeq2Seq,
}
LENGTHS, TARGETS, GAPS = (11, 8, 5), (7, 6, 4), ((2, 8), (1, 5), (3,))
TOLERANCE, NOISE = 1e-4, 0.05
ONE_ROW, ONE_ROW_TEXT = "beta of one row a pass", 1
QUANTITIES = ("alpha", "beta", "delta", ONE_ROW)
OUTCOMES = ("right", "refused", "wrong", "traceback", "cannot be built")
FAULTS = ("wrong", "traceback")

SITES = ("first", "default")
VISIBLE = 1e-2  # log-odds; an effect below it would hide mistakes

Matrix = NDArray[np.float64]
Probed = dict[str, dict[str, list[Matrix]]]  # by site and quantity, a matrix for each text


@dataclass(frozen=True)
class Result:
    """What came of one pair."""

    model_type: str
    kind: str
    outcome: str
    reason: str = ""
    acted: tuple[str, ...] = ()
    error: float | None = None  # the largest difference from the reference, where there are numbers
    effect: float | None = None  # how far forcing moves the log-odds at most, at the site where it does so least
    detail: str = ""  # the traceback, for the JSON file


def pairs() -> list[tuple[str, str]]:
    """Every (type, kind) that the installed transformers maps."""
    return sorted((model_type, kind) for kind, names in NAMES.items() for model_type in names)


def check(model_type: str, kind: str) -> Result:
    """The outcome of one pair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of transformers, about tiny configurations
        return _check(model_type, kind)


def _check(model_type: str, kind: str) -> Result:
    torch.manual_seed(0)
    try:
        sentences = make_sentences(kind)
        network = make_network(model_type, kind)
        run_alone(network, kind, sentences)
    except Exception as error:
        return Result(model_type, kind, "cannot be built", sentence_of(error), detail=traceback.format_exc())
    try:
        acted = acting(Reference(network, kind, sentences[0]))
    except Exception as error:
        return Result(
            model_type, kind, "traceback", f"the check fails: {place_of(error)}", detail=traceback.format_exc()
        )
    try:
        ours = {site: probed(network, kind, sentences, site) for site in SITES}
    except KtiwprobeError as error:
        return Result(model_type, kind, "refused", str(error), acted)
    except Exception as error:
        return Result(model_type, kind, "traceback", place_of(error), acted, detail=traceback.format_exc())
    return compared(Result(model_type, kind, "right", "", acted), network, sentences, ours)


def compared(result: Result, network: Any, sentences: list[Sentence], ours: Probed) -> Result:
    """The result after a comparison of our numbers with the reference."""
    try:
        worst, where = largest_difference(network, result.kind, sentences, ours)
        effect = smallest_effect(network, result.kind, sentences[0])
    except NoReferenceError as error:
        return dataclasses.replace(result, outcome="wrong", reason=f"numbers are printed, but {error}")
    except Exception as error:
        why = f"the check fails: {place_of(error)}"
        return dataclasses.replace(result, outcome="traceback", reason=why, detail=traceback.format_exc())
    result = dataclasses.replace(result, error=worst, effect=effect)
    if where:
        return dataclasses.replace(result, outcome="wrong", reason=where)
    weak = f"in this network, forcing moves the log-odds by no more than {effect:.1g}"
    return result if effect >= VISIBLE else dataclasses.replace(result, reason=weak)


# the network and the texts


def make_network(model_type: str, kind: str) -> Any:
    """A tiny network with weights large enough that every part shows, in evaluation mode."""
    config = tiny_config(model_type, kind)
    network = getattr(transformers, MODELS[kind].auto).from_config(config, attn_implementation="eager").eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():  # parts that begin as 0 must not hide
            if parameter.is_floating_point():
                parameter.add_(NOISE * torch.randn_like(parameter))
        for part in network.modules():  # training leaves the embedding of padding at 0
            if isinstance(part, torch.nn.Embedding) and part.padding_idx is not None:
                part.weight[part.padding_idx] = 0
    return network


def make_sentences(kind: str) -> list[Sentence]:
    """Three texts of different lengths, the first longer than every window."""
    random = torch.Generator().manual_seed(0)

    def words(count: int) -> Tensor:
        return torch.randint(FIRST_WORD, VOCABULARY, (count,), generator=random)

    sentences = []
    for number, length in enumerate(LENGTHS):
        x = words(length)
        if kind == "causal":
            y = torch.cat([x[1:], words(1)])
        elif kind == "masked":
            gaps = torch.tensor(GAPS[number])
            y, x[gaps] = x[gaps].clone(), MASK
        elif kind == "classifier":
            x[-1], y = EOS, torch.tensor([number % LABELS])
        else:
            x[-1], y = EOS, words(TARGETS[number])
        sentences.append(Sentence(x, y, BOS, MASK))
    return sentences


def make_batch(sentences: list[Sentence]) -> Batch:
    """The texts padded to one length, as ktiwprobe reads them."""
    x, y = ([getattr(one, side) for one in sentences] for side in "xy")
    x_mask, y_mask = ([torch.ones_like(one, dtype=torch.bool) for one in side] for side in (x, y))
    pad = torch.nn.utils.rnn.pad_sequence
    lengths = torch.tensor([len(one) for one in x])
    return Batch(pad(x, True, PAD), pad(x_mask, True, False), lengths, pad(y, True, PAD), pad(y_mask, True, False))


@torch.no_grad()
def run_alone(network: Any, kind: str, sentences: list[Sentence]) -> None:
    """Raise an error if transformers alone cannot run the network on a text, or answers with no numbers."""
    for sentence in sentences:
        if not torch.isfinite(Reference(network, kind, sentence).run()).all():
            raise ValueError("its logits are not finite")


# our side


def probed(network: Any, kind: str, sentences: list[Sentence], site: str) -> dict[str, list[Matrix]]:
    """alpha, beta and delta of a padded batch, each a list of (S, T, L), NaN where a row may not look."""
    cls = MODELS[kind]
    name = f"{cls.groups[0]}:0" if site == "first" else None
    model = wrapped(network, kind, name)
    batch, registry = make_batch(sentences), build_registry()
    found = {}
    for quantity in QUANTITIES:
        if quantity == ONE_ROW:
            model.options = dataclasses.replace(model.options, rows="single")
        signal = probe(model, [batch], "beta" if quantity == ONE_ROW else quantity, registry=registry)
        found[quantity] = [np.atleast_3d(signal[i].T).T.astype(np.float64) for i in range(len(sentences))]
    return found


def wrapped(network: Any, kind: str, site: str | None) -> Any:
    """The network as a ktiwprobe model of its kind, as `as_model` makes it."""
    model = as_model(network, site=site, tokenizer=SimpleNamespace(mask_token_id=MASK))
    if type(model) is MODELS[kind]:
        return model
    cls = MODELS[kind]
    V = LABELS if kind == "classifier" else network.config.get_text_config().vocab_size
    model = cls(network, cls.Options(site=site), V=V)
    model.settle()
    if kind == "masked":
        model.mask_id = MASK
    return model


# the comparison


def smallest_effect(network: Any, kind: str, sentence: Sentence) -> float:
    """How far the reference's beta is from the unforced log-odds at most, at the site where that is least."""
    reference = Reference(network, kind, sentence)
    own = reference.log_odds(reference.logits).unsqueeze(-1)
    sites = (reference.sites[0], reference.sites[-1])
    return min(float((reference.beta(site) - own)[reference.cells(site)].abs().max()) for site in sites)


def largest_difference(network: Any, kind: str, sentences: list[Sentence], ours: Probed) -> tuple[float, str]:
    """The largest difference from the reference, and a sentence about what is wrong: empty if nothing is."""
    worst = 0.0
    wrong: dict[tuple[str, str], tuple[float, str]] = {}
    for number, sentence in enumerate(sentences):
        reference = Reference(network, kind, sentence)
        for site, calls in zip(SITES, (reference.sites[0], reference.sites[-1]), strict=True):
            some, every = (reference.cells(calls, every_head=every).numpy() for every in (False, True))
            expected = {
                "alpha": reference.alpha(calls),
                "beta": reference.beta(calls).unsqueeze(0),
                "delta": reference.delta().unsqueeze(0),
            }
            if number == ONE_ROW_TEXT:  # a pass for each cell
                expected[ONE_ROW] = reference.beta_one_row(calls).unsqueeze(0)
            for quantity, values in expected.items():
                cells = some if quantity in ("alpha", "delta") else every
                size, why = compare(ours[site][quantity][number], values.detach().double().numpy(), cells)
                worst = max(worst, size)
                key = quantity, site
                if why and (key not in wrong or size > wrong[key][0]):
                    wrong[key] = size, why
    return worst, grouped(wrong)


def grouped(wrong: dict[tuple[str, str], tuple[float, str]]) -> str:
    """What is wrong, in one sentence: quantities that are wrong in the same way are named together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for (quantity, site), (_, why) in wrong.items():
        reasons.setdefault((site, why), []).append(quantity)
    return "; ".join(f"{', '.join(names)} at the {site} site: {why}" for (site, why), names in reasons.items())


def compare(ours: Matrix, expected: Matrix, cells: NDArray[np.bool_]) -> tuple[float, str]:
    """The largest difference over the cells, relative where values exceed 1, and what is wrong."""
    T, L = cells.shape
    if ours.shape[0] != expected.shape[0] or ours.shape[1] != T or ours.shape[2] > L:
        return np.inf, f"shape {ours.shape} instead of {expected.shape}"
    whole = np.full((len(ours), T, L), np.nan)
    whole[:, :, : ours.shape[2]] = ours
    looks = ~np.isnan(whole).all(0)
    if (looks != cells).any():
        return float("inf"), f"{int((looks != cells).sum())} of {cells.size} cells differ in whether a row may look"
    size = np.abs(whole - expected) / np.maximum(1, np.abs(expected))
    largest = float(size[:, cells].max(initial=0))
    return largest, "" if largest <= TOLERANCE else f"off by {largest:.2g}"


# words


def sentence_of(error: BaseException) -> str:
    """One line about an error."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}"


def place_of(error: BaseException) -> str:
    """One line about an error, and the line of code that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{sentence_of(error)} ({Path(last.filename).name}:{last.lineno})"
