"""ktiwprobe agree"""

from __future__ import annotations

from typing import Any

import click

from ktiwprobe.cli.common import (
    format_option,
    level_option,
    load_registry,
    metric_option,
    show_progress,
    signal_options,
    task_option,
)


@click.command("agree")
@click.option("--u", "u", required=True, metavar="SPEC", help="The signal whose peaks are looked for.")
@click.option("--v", "v", required=True, metavar="SPEC", help="The signal they are looked for in.")
@metric_option
@task_option
@click.option(
    "--performance",
    metavar="MEASURE",
    help="The unit of ξ and the criterion for @best: accuracy, loss, perplexity or bleu. [default: accuracy]",
)
@level_option("token")
@format_option
@signal_options
def command(u: str, v: str, metric: str | None, form: str, quiet: bool, **places: Any) -> None:
    """Compare two signals: does V know what U points at?

    SPEC is [RUN:]SYMBOL[SITE][@STEP], a signal file, or `gold`. SYMBOL is a probe (alpha, beta, delta, ...). A bare
    symbol means one run on both sides: the learned run with the lowest seed, at its best checkpoint, or the RUN that
    the other side names. A suffix picks another run: -hat (another seed), -uf (uniform attention), -fr (frozen beta),
    -px (proxy), -ibm or -log. STEP is a number, best, last or max (the step that agrees best; the default of beta-hat,
    -uf and -fr). The output names runs, steps and how each step was chosen; read its warnings first.

    \b
    ktiwprobe agree --u alpha --v beta
    ktiwprobe agree --u alpha --v beta-hat
    ktiwprobe agree --u alpha --v beta-uf --metric kendall
    ktiwprobe agree --u delta --v beta --metric agreement:abs=true
    ktiwprobe agree --u alpha --v gold --metric aer --format json
    ktiwprobe agree --u model-s0:alpha --v other-tokenizer-s0:alpha --level word
    """
    from ktiwprobe.compare.finder import agree
    from ktiwprobe.views.tables import show_agreement

    result = agree(u, v, metric, registry=load_registry(), progress=show_progress(quiet), **places)
    click.echo(show_agreement([result], form))
