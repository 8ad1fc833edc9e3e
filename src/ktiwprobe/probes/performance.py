"""How well a run does at its checkpoints on the split in use: read from its log, else measured and kept beside it.

The log knows accuracy, loss and perplexity on the validation split. The same on another split, and BLEU on any, is
measured from the checkpoints that are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.corpus.corpus import Corpus
from ktiwprobe.errors import KtiwprobeError, RunError, UnknownNameError, UsageError
from ktiwprobe.files import storage
from ktiwprobe.files.progress import SILENT, Progress
from ktiwprobe.plugins.capabilities import Translates, supports, version_of
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.runs.best import MEASURES as LOGGED
from ktiwprobe.runs.best import best_of
from ktiwprobe.training.loop import EVALUATED_CELLS, evaluate

MEASURES = (*LOGGED, "bleu")
BEAM, LIMIT = 5, 100  # of translations to be judged: beams, and pieces at most
TRANSLATED = 64  # sentences at a time


class Performance:
    """One run by one measure."""

    def __init__(self, extractor: Extractor, measure: str | None = None, progress: Progress = SILENT) -> None:
        self.extractor, self.run, self.progress = extractor, extractor.run, progress
        self.measure = measure or self.run.best_by
        if self.measure not in MEASURES:
            raise UnknownNameError("performance", self.measure, MEASURES)

    def curve(self, last: int | None = None) -> dict[int, float]:
        """The measure at every checkpoint, or at those up to step `last`."""
        if self._is_logged:
            found = self.run.performance(self.measure)
            return {step: value for step, value in found.items() if last is None or step <= last}
        return {step: self.at(step) for step in self.extractor.steps() if last is None or step <= last}

    def at(self, step: int) -> float:
        """The measure at one checkpoint."""
        if self._is_logged:
            curve = self.run.performance(self.measure)
            if step not in curve:
                raise RunError(f"run {self.run.name} was not evaluated at step {step}: it was at {sorted(curve)}")
            return curve[step]
        return float(self.record(step)[self.measure])

    def best_step(self, last: int | None = None) -> int:
        """The checkpoint that performs best, the earliest of equals; for the test split chosen on validation."""
        if self.extractor.split == "test":
            return Performance(self.extractor.over("validation"), self.measure, self.progress).best_step(last)
        return best_of(self.curve(last), self.measure, self.run.name)

    def record(self, step: int) -> dict[str, Any]:
        """What was measured at a checkpoint and how; stored, and measured anew only if it is of something else."""
        extractor, bleu = self.extractor, self.measure == "bleu"
        path = self.run.performance_path(extractor.split, step, "bleu" if bleu else "likelihood")
        current = extractor.model_version
        identity = (
            extractor.identity_of(step)
            | ({} if current is None else {"version": current})
            | ({"beam": BEAM, "limit": LIMIT, "sacrebleu": version("sacrebleu")} if bleu else {})
        )
        found = {"version": version_of.default, **_stored(path)}  # older ones do not say
        if found.items() >= identity.items() and self.measure in found:
            extractor.check_corpus()
            return found
        measured = self._bleu(step) if bleu else self._likelihood(step)
        storage.write_json(path, {**identity, **measured})
        return {**identity, **measured}

    @property
    def _is_logged(self) -> bool:
        return self.measure in LOGGED and self.extractor.split == "validation"

    def _likelihood(self, step: int) -> dict[str, float]:
        return evaluate(self.extractor.model(step), list(self.extractor.batches(cells=EVALUATED_CELLS)))

    def _bleu(self, step: int) -> dict[str, Any]:
        """BLEU of what a beam search says, on text put together again from its pieces, by sacreBLEU."""
        corpus, model = self.extractor.corpus, self.extractor.model(step)
        if corpus.kind != "translation" or not supports(model, Translates):
            raise UsageError(
                f"BLEU is for models that translate, and {self.run.record.model} on {corpus.task} does not: "
                "measure its accuracy instead",
                hint="performance=accuracy",
            )
        said: list[str] = []
        right: list[str] = []
        self.progress.begin(f"{self.run.name}: BLEU@{step}", len(self.extractor.part), unit="sentences")
        try:
            for batch in self.extractor.batches(cells=EVALUATED_CELLS, most=TRANSLATED):
                said += spell(model.translate(batch, beam=BEAM, limit=LIMIT), corpus)
                right += spell(_references(batch, corpus), corpus)
                self.progress.advance(len(said))
        finally:
            self.progress.end()
        return score_bleu(said, right)


def score_bleu(said: Sequence[str], right: Sequence[str]) -> dict[str, Any]:
    """BLEU from 0 to 100, and sacreBLEU's signature of how it was computed."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    score = metric.corpus_score(list(said), [list(right)]).score
    return {"bleu": float(score), "signature": str(metric.get_signature())}


def spell(rows: Iterable[Sequence[int]], corpus: Corpus) -> list[str]:
    """Output ids as text, in the way of the corpus's tokenizer."""
    roles = corpus.roles("target")
    return [roles.text(row, corpus.target_tokens) for row in rows]


def _references(batch: Batch, corpus: Corpus) -> Iterator[list[int]]:
    """The right output of each sentence without the symbols that are of no word, such as the end."""
    roles = corpus.roles("target")
    for y, real in zip(batch.y.cpu().numpy(), batch.y_mask.cpu().numpy(), strict=True):
        yield y[real & roles.is_word(y)].tolist()


def _stored(path: Any) -> dict[str, Any]:
    try:
        found = storage.read_json(path)
    except KtiwprobeError:  # missing, or damaged
        return {}
    return found if isinstance(found, dict) else {}
