"""All that the page says, as plain data: dictionaries, lists, numbers and text."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ktiwprobe.errors import CorpusError
from ktiwprobe.files.progress import SILENT, Progress
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.runs.run import Run
from ktiwprobe.views.dictionary import MEANING, Dictionary, Entry, knowledge_of
from ktiwprobe.views.page import measures, sentences
from ktiwprobe.views.page.findings import findings
from ktiwprobe.views.page.measures import MEASURE, Reader
from ktiwprobe.views.page.pack import pack
from ktiwprobe.views.page.page import describe

MOST_STEPS, FEWEST_STEPS = 40, 8  # on the slider; more are thinned evenly, and where there are many heads more so
MOST_LAYERS = 160  # steps x heads
MOST_WORDS = 1000  # in the dictionary
Data = dict[str, Any]


def collect(
    folder: Path,
    registry: Registry,
    names: Sequence[str] = (),
    *,
    sentences: int | None = None,
    task: str | None = None,
    split: str = "validation",
    device: str = "auto",
    progress: Progress = SILENT,
) -> Data:
    """The report of the latest run's group, or of the named runs; what is missing is extracted.

    `sentences` are shown, else as many as fit a page of 5 MB, at most 50.
    """
    finder = Reader(folder, registry, task=task, split=split, device=device, progress=progress, only=names)
    check_same_corpus(finder)
    rows, missing = measures.compare(finder)
    lines = measures.curves(finder)
    shown = _viewer(finder, sentences)
    return {
        "about": about(finder),
        "runs": [_run(run, role) for role, run in cast(finder)],
        "rows": rows,
        "missing": missing,
        "warnings": measures.all_warnings(rows),
        "curves": lines,
        "baseline": measures.one_chance(rows, lines),
        "findings": findings(rows, lines),
        "dictionary": dictionary(finder),
        **shown,
    }


def check_same_corpus(finder: Reader) -> None:
    """Signals of one page are over the same sentences."""
    first = finder.main()
    for run in finder.runs() if finder.only else finder.group():
        if run.record.corpus != first.record.corpus:
            raise CorpusError(
                f"{first.name} and {run.name} are of different corpora: a report is of one, name runs of one task"
            )


def cast(finder: Reader) -> list[tuple[str, Run]]:
    """Every run that takes part, and as what."""
    main, kinds = finder.main(), finder.registry.run_kinds()
    learned = [
        r for r in sorted(finder.group(), key=lambda r: r.seed) if r.attention == "learned" and r.path != main.path
    ]
    others = [r for r in finder.group() if r.attention != "learned" and r.path != main.path]
    return [
        ("the run shown", main),
        *(("another seed", run) for run in learned),
        *((f"{run.attention} attention", run) for run in others),
        *((kinds[name].label, run) for name, run in finder.beside().items()),
        *(("another model", run) for run in measures.other_models(finder)),
    ]


def about(finder: Reader) -> Data:
    """What the page is of."""
    run, extractor = finder.main(), finder.extractor(finder.main())
    record, part = run.record, extractor.part
    options = {f"{space}.{key}": value for space, of in record.options.items() for key, value in of.items()}
    return {
        "task": record.task,
        "kind": record.kind,
        "model": record.model,
        "split": finder.split,
        "size": len(part),
        "outputs": int(part.y.lengths.sum()),
        "options": {key: value for key, value in options.items() if value is not None},
        "versions": record.versions,
        "measure": MEASURE,
        "date": datetime.date.today().isoformat(),
    }


def _run(run: Run, role: str) -> Data:
    curve, steps = run.performance(MEASURE), run.steps()
    best = run.best_step() if curve else None
    plain = {"name": run.name, "role": role, "model": run.record.model, "seed": run.seed, "attention": run.attention}
    return {**plain, "steps": steps[-1] if steps else None, "checkpoints": len(steps), "best": best,
            "performance": curve.get(best) if best is not None else None}  # fmt: skip


def _viewer(finder: Reader, wanted: int | None) -> Data:
    """Sentences, and for each run that is shown its signals over them."""
    main = finder.main()
    runs = [main, *(run for run in finder.runs() if finder.only and run.path != main.path)]
    layers = sum(_layers(finder, run) for run in runs)
    chosen = sentences.choose(finder.extractor(main), layers, wanted)
    views = [_view(finder, run, chosen) for run in runs]
    return {"sentences": sentences.describe(finder.extractor(main), chosen), "views": views}


def steps_of(finder: Reader, run: Run) -> list[int]:
    """The steps that are shown: all, or an even choice of them, the first, the best and the last included."""
    steps = finder.extractor(run).steps()
    most = min(max(MOST_LAYERS // _sites(run), FEWEST_STEPS), MOST_STEPS)
    if len(steps) <= most:
        return steps
    kept = {steps[i] for i in np.linspace(0, len(steps) - 1, most - 1).round().astype(int)}
    return sorted(kept | {run.best_step()})


def _sites(run: Run) -> int:
    return max(1, len(run.record.sites))


def _layers(finder: Reader, run: Run) -> int:
    """How many blocks of T x L a sentence has for one run: α has one a site, the others one."""
    return len(steps_of(finder, run)) * (_sites(run) + len(finder.extractor(run).usual_probes()) - 1)


def _view(finder: Reader, run: Run, chosen: sentences.Numbers) -> Data:
    extractor, steps = finder.extractor(run), steps_of(finder, run)
    widths = extractor.part.x.lengths[chosen]
    probes = []
    for probe in extractor.usual_probes():
        signals = [extractor.signal(probe, step, progress=finder.progress) for step in steps]
        probes.append({"name": probe, **describe(signals[0].quantity), **pack(signals, chosen, widths)})
    agreement = measures.per_sentence(finder, run, steps)  # (steps, sentences)
    performance = run.performance(MEASURE)
    return {
        "run": run.name,
        "steps": steps,
        "all_steps": len(run.steps()),
        "best": steps.index(run.best_step()),
        "performance": [performance.get(step) for step in steps],
        "agreement": [[row[i] for row in agreement] for i in chosen.tolist()],
        "probes": probes,
    }


def dictionary(finder: Reader) -> Data:
    """The entries of the most frequent input words, for every kind of run at its best step."""
    kinds, knowledge = finder.registry.run_kinds(), knowledge_of(finder.registry)
    knowing = [name for name, kind in kinds.items() if not kind.stands_beside and kind.shows[0] == "knowledge"]
    others = [run for name in knowing for run in finder.of_kind(name)[:1]]
    asked = {run.path: run for run in [finder.main(), *others, *finder.beside().values()] if run.offers(knowledge)}
    main = finder.extractor(finder.main())  # the others have the same corpus
    book = Dictionary(main.corpus, main.part, split=main.split)
    columns, tables = [], []
    for run in asked.values():
        beta = finder.extractor(run).signal(knowledge, "best", progress=finder.progress)
        tables.append(book.entries(beta))
        columns.append({"run": run.name, "model": run.record.model, "attention": run.attention})
    often = sorted(
        {i: e for table in tables for i, e in table.items()}.items(), key=lambda e: (-e[1].occurrences, e[0])
    )
    words = [
        {"word": entry.word, "count": entry.occurrences, "said": [_said(table.get(i)) for table in tables]}
        for i, entry in often[:MOST_WORDS]
    ]
    return {"meaning": MEANING, "columns": columns, "words": words, "all_words": len(often)}


def _said(entry: Entry | None) -> list[tuple[str, float, float]]:
    """Outputs with their p and lift."""
    if entry is None:
        return []
    outputs = zip(entry.outputs, entry.p, entry.lift, strict=True)
    return [(output, round(p, 4), round(lift, 2)) for output, p, lift in outputs]
