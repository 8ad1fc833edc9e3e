"""ktiwprobe align"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ktiwprobe.cli.common import format_option, level_option, load_registry, show_progress, signal_options, task_option

if TYPE_CHECKING:
    from ktiwprobe.corpus.links import Links


@click.command("align")
@click.option("--u", "u", required=True, metavar="SPEC", help="The signal to align by, or a file of links.")
@click.option("--v", "v", metavar="SPEC", help="The same of a run that translates back.")
@click.option(
    "--method",
    metavar="METHOD",
    help="argmax, threshold:at=X, mutual, union, grow-diag, grow-diag-final or grow-diag-final-and. "
    "[default: argmax; with --v grow-diag-final-and]",
)
@click.option("--gold", metavar="FILE", help="Human links to hold it to; `gold` means the task's own.")
@click.option(
    "--gold-index", default="0", show_default=True, type=click.Choice(["0", "1"]), help="From what FILE counts words."
)
@click.option("--gold-reverse", is_flag=True, help="FILE has the target's words first.")
@click.option("--out", metavar="FILE", help="Write the links there.")
@task_option
@level_option("word")
@format_option
@signal_options
def command(
    u: str,
    v: str | None,
    method: str | None,
    gold: str | None,
    gold_index: str,
    gold_reverse: bool,
    out: str | None,
    form: str,
    quiet: bool,
    **places: Any,
) -> None:
    """Turn a signal into links between words, and judge them.

    Links are printed as Pharaoh lines, `0-0 1-2`: a line a sentence pair, source word, target word. With --gold the
    alignment error rate, precision, recall and F1 are printed instead, with intervals; --out keeps the links.

    \b
    ktiwprobe align --u alpha --out alpha.align
    ktiwprobe align --u beta --gold gold
    ktiwprobe align --u beta --gold people.align --gold-index 1
    ktiwprobe align --u there:alpha@last --v back:alpha@last --split test
    ktiwprobe align --u forward.align --v backward.align --method mutual
    """
    from ktiwprobe.compare.alignment import Aligner, align, score
    from ktiwprobe.views.tables import show_score

    aligner = Aligner(registry=load_registry(), progress=show_progress(quiet), **places)
    links = align(u, v, method, aligner=aligner)
    if out:
        _write(links, out)
    if gold:
        truth = aligner.gold(gold, index=int(gold_index), reverse=gold_reverse)
        click.echo(show_score(score(links, truth), form))
    elif not out:
        click.echo("\n".join(links.to_pharaoh()))
    elif not quiet:
        click.echo(f"{out}: {len(links.cells.values)} links in {len(links)} sentence pairs")


def _write(links: Links, path: str) -> None:
    from pathlib import Path

    from ktiwprobe.errors import UsageError

    try:
        Path(path).write_text("".join(f"{line}\n" for line in links.to_pharaoh()), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
