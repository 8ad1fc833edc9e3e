"""ktiwprobe report"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ktiwprobe.cli.common import data_option, device_option, load_registry, quiet_option, runs_option, split_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command("report")
@click.argument("names", nargs=-1, metavar="[RUN]...")
@click.option("--task", metavar="TASK", help="Only runs of this task.")
@click.option("--out", default="report.html", show_default=True, metavar="FILE", help="Where to write the page.")
@click.option("--force", is_flag=True, help="Write over a file that exists.")
@click.option(
    "--sentences",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many sentences to show. [default: 50, fewer if the page would pass 5 MB]",
)
@split_option
@runs_option
@data_option
@device_option
@quiet_option
def command(
    names: tuple[str, ...],
    task: str | None,
    out: str,
    force: bool,
    sentences: int | None,
    split: str,
    runs: str | None,
    device: str,
    quiet: bool,
) -> None:
    """Write one page that tells a run's whole story.

    Agreement, curves over training, and sentences to look into, of each RUN (default: the latest run and those that
    belong to it). The page is one HTML file that needs no network; signals that are missing are extracted first.

    \b
    ktiwprobe report
    ktiwprobe report lstm-seq2seq-s0 --out one.html --sentences 100
    """
    from pathlib import Path

    path = Path(out)
    _check_place(path, force=force)
    from ktiwprobe import storage
    from ktiwprobe.cli.progress import make_progress
    from ktiwprobe.report import collect, render
    from ktiwprobe.run import runs_folder

    data = collect(
        runs_folder(runs),
        load_registry(),
        names,
        sentences=sentences,
        task=task,
        split=split,
        device=device,
        progress=make_progress(quiet),
    )
    page = render(data).encode()
    storage.write_bytes(path, page)
    shown = f"{len(data['sentences'])} of {data['about']['size']} sentences, {len(data['views'][0]['steps'])} steps"
    click.echo(f"{path}: {data['runs'][0]['name']}, {shown}, {len(page) / 1e6:.1f} MB")


def _check_place(path: Path, *, force: bool) -> None:
    """Refuse what cannot be written before an hour is spent on what to write."""
    import os

    from ktiwprobe.errors import RunError, UsageError

    if path.is_dir():
        raise UsageError(f"{path} is a folder: give --out the name of a file")
    if path.exists() and not force:
        raise UsageError(f"{path} exists: write over it with --force, or choose another --out")
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise RunError(f"cannot write {path}: {above} is not a folder that can be written to; choose another --out")
