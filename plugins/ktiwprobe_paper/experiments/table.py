"""The paper's Table 1 and its variants (Section 3, Appendix): the rows of any tasks, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ktiwprobe import Corpus, option
from ktiwprobe.compare.agreement import make_metric
from ktiwprobe.errors import OptionError
from ktiwprobe.experiments import Context, Result
from ktiwprobe.plugins.capabilities import NeedsData, supports
from ktiwprobe.training.sweep import Job
from ktiwprobe_paper.experiments.comparison import Comparison, How, Runs
from ktiwprobe_paper.experiments.published import LEARNED, UNIFORM
from ktiwprobe_paper.experiments.table_result import MODELS, USUAL, Plan, make_result

SMALL = {
    "classification": {"model.hidden": 32, "model.embedding": 32},
    "translation": {"model.hidden": 32, "layers": 1},
}
SMALL_STEPS = 200


class Table:
    """Rows of Table 1."""

    claim: ClassVar[str] = (
        "Attention agrees with word knowledge, A(α, β̂), even if that was learned without attention, A(α, β-uf), and "
        "this in turn agrees with the bag-of-words proxy, A(β-uf, β-px): all far above chance, on every task "
        "(Section 3, Table 1)."
    )
    seeds: ClassVar[Sequence[int]] = ()
    small_seeds: ClassVar[Sequence[int]] = ()
    takes: ClassVar[Sequence[str]] = ()

    @dataclass(frozen=True)
    class Options:
        """Which table."""

        tasks: tuple[str, ...] = option(
            ("sst", "ag-news", "multi30k"), help="rows, each TASK or TASK:key=value (multi30k:direction=en-de)"
        )
        metric: Literal["agreement", "kendall", "spearman"] = option("agreement", help="what A is")
        split: Literal["validation", "train", "test"] = option("validation", help="train is a sample of it")
        performance: Literal["accuracy", "bleu"] = option("accuracy", help="what ξ is in, and what is best")
        seeds: int | None = option(
            None, low=2, high=len(LEARNED), help="learned runs; none: the paper's, 6 to classify, 2 to translate"
        )
        max_steps: int | None = option(None, low=1, help="cut trainings there; such rows are marked and do not count")

    def run(self, context: Context) -> Result:
        """Train what all rows need, then compare row by row."""
        options: Table.Options = context.options
        plans = [make_plan(context, label) for label in options.tasks]
        trained = iter(context.train(job for plan in plans for jobs in plan.jobs.values() for job in jobs))
        rows = []
        for plan in plans:
            runs = {kind: [next(trained) for _ in jobs] for kind, jobs in plan.jobs.items()}
            how = How(make_metric(context.registry.load("metrics", options.metric), options.metric), options.split,
                      options.performance, averaged=plan.kind == "classification")  # fmt: skip
            rows.append(Comparison(context, Runs(**runs, last=plan.last), how).row())
        return make_result(options, plans, rows)


# what to train


def make_plan(context: Context, label: str) -> Plan:
    """The jobs of a row; its data is looked at, so that what is missing is told before anything is trained."""
    options: Table.Options = context.options
    task, *pairs = label.split(":")
    if not all("=" in pair for pair in pairs):
        raise OptionError(f"row {label!r} is not TASK or TASK:key=value")
    values: dict[str, Any] = {f"task.{key}": value for key, _, value in (pair.partition("=") for pair in pairs)}
    any_job = Job("bow-proxy", task, options=values)
    corpus = any_job.recipe(context.registry).corpus()
    if options.performance == "bleu" and corpus.kind != "translation":
        raise OptionError(f"BLEU is for translation, and {task} is {corpus.kind}: set performance to accuracy")
    jobs = make_jobs(context, task, corpus.kind, values)
    most = [steps for steps in (options.max_steps, SMALL_STEPS if context.small else None) if steps]
    cut_jobs, last, published = cut_at(min(most, default=None), jobs, corpus, context)
    owner = context.registry.load("tasks", task)()
    note = owner.needs().note if supports(owner, NeedsData) else ""
    return Plan(label, corpus.kind, cut_jobs, last, published[MODELS[corpus.kind]] or 0, note)


def make_jobs(context: Context, task: str, kind: str, values: dict[str, Any]) -> dict[str, list[Job]]:
    """Learned runs, and one uniform run and proxy more for each learned run more than the paper's."""
    wanted = context.options.seeds or (2 if context.small else USUAL[kind])
    further = UNIFORM[: 1 + max(0, wanted - USUAL[kind])]
    sized = {**values, **(SMALL[kind] if context.small else {})}
    return {
        "learned": [Job(MODELS[kind], task, seed, options=sized) for seed in LEARNED[:wanted]],
        "uniform": [Job(MODELS[kind], task, seed, "uniform", options=sized) for seed in further],
        "proxies": [Job("bow-proxy", task, seed, options=values) for seed in further],
        "counts": [Job("ibm1", task, 0, options=values)] if kind == "translation" else [],
    }


def cut_at(
    most: int | None, jobs: dict[str, list[Job]], corpus: Corpus, context: Context
) -> tuple[dict[str, list[Job]], dict[str, int | None], dict[str, int | None]]:
    """The jobs with at most so many steps; and by model the step they end at, and the one they would.

    A run that somebody has trained further is read up to there only.
    """
    last: dict[str, int | None] = {}
    full: dict[str, int | None] = {}
    cut: dict[str, list[Job]] = {kind: [] for kind in jobs}
    for kind, job in ((kind, job) for kind, group in jobs.items() for job in group):
        recipe = job.recipe(context.registry)
        steps = None if recipe.fits_itself else recipe.steps(corpus)
        shorter = steps is not None and most is not None and most < steps
        cut[kind].append(Job(job.model, job.task, job.seed, job.attention, most, job.options) if shorter else job)
        last[job.model], full[job.model] = most if shorter else steps, steps
    return cut, last, full
