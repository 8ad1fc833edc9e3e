"""ktiwprobe plot"""

from __future__ import annotations

from typing import Any

import click

from ktiwprobe.cli.common import (
    data_option,
    device_option,
    load_registry,
    probes_option,
    quiet_option,
    runs_option,
    site_option,
    split_names,
    split_option,
)


@click.command("plot")
@click.argument("kind")
@click.argument("run", required=False)
@click.option("--out", metavar="FILE", help="Where to: .png, .svg or .pdf. [default: KIND.png]")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option(
    "--sentence", default=0, show_default=True, type=click.IntRange(min=0), metavar="N", help="heatmap: which."
)
@probes_option
@click.option("--at", default="best", show_default=True, metavar="WHEN", help="best, last, or a step.")
@site_option
@click.option("--u", default="alpha", show_default=True, metavar="SPEC", help="curves: what the others agree with.")
@click.option("--v", metavar="SPEC,...", help="curves, agreement-matrix: the others. [default: all there are]")
@click.option(
    "--metric", default="agreement", show_default=True, metavar="NAME[:k=v]", help="curves, agreement-matrix."
)
@click.option(
    "--words", default=24, show_default=True, type=click.IntRange(min=2), metavar="N", help="count-table: of a side."
)
@click.option(
    "--against", default="alpha", show_default=True, metavar="WHAT", help="keyword-scatter: alpha, delta, count."
)
@click.option("--task", metavar="TASK", help="Only runs of this task.")
@split_option
@runs_option
@data_option
@device_option
@quiet_option
def command(
    kind: str,
    run: str | None,
    out: str | None,
    force: bool,
    probes: str | None,
    v: str | None,
    quiet: bool,
    **rest: Any,
) -> None:
    """Draw a figure for a paper.

    KIND is curves, heatmap, count-table, agreement-matrix or keyword-scatter. Without RUN it is of the runs that
    `agree` takes; what is missing is extracted.

    \b
    ktiwprobe plot curves --out curves.pdf
    ktiwprobe plot heatmap lstm-seq2seq-s0 --sentence 3 --out sentence.svg
    ktiwprobe plot agreement-matrix --metric kendall
    """
    from pathlib import Path

    from ktiwprobe import plots
    from ktiwprobe.address import Finder
    from ktiwprobe.cli.progress import make_progress
    from ktiwprobe.errors import UnknownNameError
    from ktiwprobe.figures import KINDS, Request, check_output, draw
    from ktiwprobe.run import find_run, runs_folder

    if kind not in KINDS:
        raise UnknownNameError("figure", kind, KINDS)
    path = check_output(Path(out or f"{kind}.png"), force=force)
    places = {name: rest.pop(name) for name in ("task", "split", "device")}
    progress = make_progress(quiet)
    finder = Finder(runs_folder(rest.pop("runs")), load_registry(), progress=progress, **places)
    if run:
        finder.around(find_run(finder.folder, run))
    others = tuple(text.strip() for text in (v or "").split(",") if text.strip())
    request = Request(finder, run, probes=split_names(probes, finder.registry), v=others, **rest)
    plots.save(draw(kind, request), path, say=progress.say)
    click.echo(f"wrote {path}")
