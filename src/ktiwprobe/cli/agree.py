"""ktiwprobe agree"""

from __future__ import annotations

import click

from ktiwprobe.cli.common import data_option, device_option, load_registry, quiet_option, runs_option, split_option


@click.command("agree")
@click.option("--u", "u", required=True, metavar="SPEC", help="The signal whose peaks are looked for.")
@click.option("--v", "v", required=True, metavar="SPEC", help="The signal they are looked for in.")
@click.option(
    "--metric", default="agreement", show_default=True, metavar="NAME[:k=v]", help="See `ktiwprobe ls metrics`."
)
@click.option("--task", metavar="TASK", help="Only runs of this task.")
@click.option(
    "--performance",
    metavar="MEASURE",
    help="What ξ is in and `best` means: accuracy, loss, perplexity or bleu. [default: accuracy]",
)
@click.option(
    "--level",
    default="token",
    show_default=True,
    type=click.Choice(["token", "word"]),
    metavar="LEVEL",
    help="token, or word: sub-words pooled, special tokens dropped.",
)
@click.option(
    "--format",
    "form",
    default="table",
    show_default=True,
    type=click.Choice(["table", "json", "csv", "latex"]),
    metavar="FORMAT",
    help="How to print it: table, json, csv or latex.",
)
@split_option
@runs_option
@data_option
@device_option
@quiet_option
def command(
    u: str,
    v: str,
    metric: str,
    task: str | None,
    performance: str | None,
    level: str,
    form: str,
    split: str,
    runs: str | None,
    device: str,
    quiet: bool,
) -> None:
    """Compare two signals: does V know what U points at?

    SPEC is [RUN:]SYMBOL[SITE][@STEP], a signal file, or `gold`. SYMBOL is a probe (alpha, beta, delta, ...) and may end
    in -hat (another seed), -uf (uniform attention), -fr (frozen beta), -px (proxy), -ibm or -log. STEP is a number,
    best, last or max.

    \b
    ktiwprobe agree --u alpha --v beta
    ktiwprobe agree --u alpha --v beta-uf --metric kendall
    ktiwprobe agree --u alpha --v gold --metric aer --format json
    ktiwprobe agree --u alpha --v other-tokenizer-s0:alpha --level word
    """
    from ktiwprobe.address import agree
    from ktiwprobe.cli.progress import make_progress
    from ktiwprobe.tables import show_agreement

    result = agree(
        u,
        v,
        metric,
        task=task,
        split=split,
        performance=performance,
        level=level,
        runs=runs,
        device=device,
        registry=load_registry(),
        progress=make_progress(quiet),
    )
    click.echo(show_agreement([result], form))
