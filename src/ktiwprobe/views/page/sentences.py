"""The sentences of the page: which are shown, their tokens and gold links, and how the model takes each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ktiwprobe.corpus.split import Split
from ktiwprobe.models.scoring import neg_log_p
from ktiwprobe.plugins.capabilities import supports
from ktiwprobe.plugins.protocols import AttentionModel
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.recording.recorder import recorded_sentences
from ktiwprobe.training.devices import choose_device
from ktiwprobe.views.page.pack import weight

USUAL = 50  # sentences, unless the user says otherwise
BUDGET = 3_300_000  # bytes of signals, which base64 makes 4.4 MB: the page stays under 5 MB
Numbers = NDArray[np.int64]


def choose(extractor: Extractor, layers: int, wanted: int | None) -> Numbers:
    """The sentences to show, in the order of the corpus: a seeded sample.

    `layers` is how many blocks each sentence has in the page (steps x sites, over all probes and runs). Without a
    wish the sample is as large as the budget allows, up to USUAL; what a user asks for is kept to.
    """
    part = extractor.part
    order = np.random.default_rng(0).permutation(len(part))[: wanted or USUAL]
    if wanted is None:
        taken = np.cumsum(weight(part.y.lengths[order], part.x.lengths[order]) * layers)
        order = order[: max(1, int(np.searchsorted(taken, BUDGET, side="right")))]
    return np.sort(order)


def describe(extractor: Extractor, sentences: Numbers) -> list[dict[str, Any]]:
    """Number, tokens, gold links (t, l, 1 if sure) and surprise of each sentence."""
    links = extractor.part.links
    found = []
    for i, surprise in zip(sentences.tolist(), surprises(extractor, sentences), strict=True):
        source, target = extractor.tokens(i)
        record: dict[str, Any] = {"number": i, "source": list(source), "target": list(target), "surprise": surprise}
        found.append({**record, "links": None if links is None else links[i].tolist()})
    return found


@torch.no_grad()
def surprises(extractor: Extractor, sentences: Numbers) -> list[float]:
    """-log2 p of an output, on average over each sentence, at the run's best step: bits."""
    part, step = extractor.part.subset(sentences), extractor.step("best")
    if extractor.run.recorded:
        nats = np.array(recorded_sentences(extractor.run, step)["nll"])[sentences] / part.y.lengths
    else:
        nats = _nats(extractor, part, step)
    return [float(value) for value in np.round(nats / np.log(2), 4)]


def _nats(extractor: Extractor, part: Split, step: int) -> NDArray[np.float64]:
    """-log p of an output, on average over each sentence. (sentences,)"""
    model, device = extractor.model(step), choose_device(extractor.device)
    nats = np.empty(len(part))
    for rows in part.by_length() if supports(model, AttentionModel) else np.arange(len(part))[:, None]:
        batch = part.batch(rows).to(device)
        if supports(model, AttentionModel):
            nats[rows] = (neg_log_p(model.trace(batch), batch).sum(1) / batch.y_mask.sum(1)).cpu().numpy()
        else:
            _, total, nll = model.evaluate(batch)
            nats[rows] = float(nll) / max(float(total), 1.0)
    return nats
