"""ktiwprobe report"""

from __future__ import annotations

from typing import Any

import click

from ktiwprobe.cli.common import force_option, load_registry, show_progress, signal_options, task_option


@click.command("report")
@click.argument("names", nargs=-1, metavar="[RUN]...")
@task_option
@click.option("--out", default="report.html", show_default=True, metavar="FILE", help="Where to write the page.")
@force_option
@click.option(
    "--sentences",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many sentences to show. [default: 50, fewer if the page would pass 5 MB]",
)
@signal_options
def command(names: tuple[str, ...], out: str, force: bool, runs: str | None, quiet: bool, **rest: Any) -> None:
    """Write one page that tells a run's whole story.

    Agreement, curves over training, and sentences to look into, of each RUN (default: the latest run and those that
    belong to it). The page is one HTML file that needs no network; signals that are missing are extracted first.

    \b
    ktiwprobe report
    ktiwprobe report lstm-seq2seq-s0 --out one.html --sentences 100
    """
    from pathlib import Path

    from ktiwprobe.files import storage

    path = storage.check_output(Path(out), force=force)
    from ktiwprobe.runs.run import runs_folder
    from ktiwprobe.views.page import collect, render

    data = collect(runs_folder(runs), load_registry(), names, progress=show_progress(quiet), **rest)
    page = render(data).encode()
    storage.write_bytes(path, page)
    shown = f"{len(data['sentences'])} of {data['about']['size']} sentences, {len(data['views'][0]['steps'])} steps"
    click.echo(f"{path}: {data['runs'][0]['name']}, {shown}, {len(page) / 1e6:.1f} MB")
