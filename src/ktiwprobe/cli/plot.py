"""ktiwprobe plot"""

from __future__ import annotations

from typing import Any

import click

from ktiwprobe.cli.common import (
    force_option,
    load_registry,
    metric_option,
    show_progress,
    signal_options,
    split_names,
    task_option,
    view_options,
)


@click.command("plot")
@click.argument("kind")
@click.argument("run", required=False)
@click.option("--out", metavar="FILE", help="Where to: .png, .svg or .pdf. [default: KIND.png]")
@force_option
@view_options
@click.option("--u", metavar="SPEC", help="curves: what the others agree with. [default: attention]")
@click.option("--v", metavar="SPEC,...", help="curves, agreement-matrix: the others. [default: all there are]")
@metric_option
@click.option(
    "--words", default=24, show_default=True, type=click.IntRange(min=2), metavar="N", help="count-table: of a side."
)
@click.option("--against", metavar="WHAT", help="keyword-scatter: alpha, delta, count. [default: attention]")
@task_option
@signal_options
def command(
    kind: str,
    run: str | None,
    out: str | None,
    force: bool,
    probes: str | None,
    at: str | None,
    v: str | None,
    quiet: bool,
    **rest: Any,
) -> None:
    """Draw a figure for a paper.

    KIND is curves, heatmap (of one --sentence), count-table, agreement-matrix or keyword-scatter. Without RUN it is of
    the runs that `agree` takes. Missing signals are computed first.

    \b
    ktiwprobe plot curves --out curves.pdf
    ktiwprobe plot heatmap lstm-seq2seq-s0 --sentence 3 --out sentence.svg
    ktiwprobe plot agreement-matrix --metric kendall
    """
    from pathlib import Path

    from ktiwprobe.compare.finder import Finder
    from ktiwprobe.errors import UnknownNameError
    from ktiwprobe.runs.listing import find_run
    from ktiwprobe.runs.run import runs_folder
    from ktiwprobe.views import plots
    from ktiwprobe.views.figures import KINDS, Request, check_output, draw

    if kind not in KINDS:
        raise UnknownNameError("figure", kind, KINDS)
    path = check_output(Path(out or f"{kind}.png"), force=force)
    places = {name: rest.pop(name) for name in ("task", "split", "device")}
    progress = show_progress(quiet)
    finder = Finder(runs_folder(rest.pop("runs")), load_registry(), progress=progress, **places)
    if run:
        finder.turn_to(find_run(finder.folder, run))
    others = tuple(text.strip() for text in (v or "").split(",") if text.strip())
    request = Request(finder, run, probes=split_names(probes, finder.registry), at=at or "best", v=others, **rest)
    plots.save(draw(kind, request), path, say=progress.say)
    click.echo(f"wrote {path}")
