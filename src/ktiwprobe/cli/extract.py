"""ktiwprobe extract"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ktiwprobe.cli.common import choose_latest, load_registry, show_progress, signal_options

if TYPE_CHECKING:
    from ktiwprobe.probes.extraction import Extractor


@click.command("extract")
@click.argument("run", required=False)
@click.option(
    "--probe",
    "probes",
    multiple=True,
    metavar="NAME",
    help="Which signals. [default: alpha, beta and, with attention, delta; of a recorded run what was recorded]",
)
@click.option("--performance", metavar="MEASURE", help="Measure this instead: accuracy, loss, perplexity or bleu.")
@click.option("--at", default="best", show_default=True, metavar="WHEN", help="best, last, all, or a step.")
@signal_options
def command(
    run: str | None,
    probes: tuple[str, ...],
    performance: str | None,
    at: str,
    split: str,
    runs: str | None,
    device: str,
    quiet: bool,
) -> None:
    """Compute and store signals of RUN, or how well it performs.

    RUN is the most recently created run if it is left out. What is stored already is not computed again.

    \b
    ktiwprobe extract
    ktiwprobe extract lstm-seq2seq-s0 --probe beta --at all
    ktiwprobe extract --performance bleu
    """
    from ktiwprobe.probes.extraction import Extractor
    from ktiwprobe.probes.performance import Performance
    from ktiwprobe.runs.listing import find_run
    from ktiwprobe.runs.run import runs_folder

    registry = load_registry()
    folder = runs_folder(runs)
    chosen = find_run(folder, run) if run else choose_latest(folder, quiet)
    for probe in probes:
        registry.entry("probes", probe)
    extractor = Extractor(chosen, registry, split=split, device=device)
    progress = show_progress(quiet)
    best = Performance(extractor, progress=progress).best_step
    steps = chosen.steps() if at == "all" else [best() if at == "best" else extractor.step(at)]
    if performance:
        measured = Performance(extractor, performance, progress)
        for step in steps:
            click.echo(f"{chosen.name}@{step}: {performance} {measured.at(step):.4g} on {split}")
        return
    for step in steps:
        for probe in probes or _usual(extractor):
            signal = extractor.signal(probe, step, progress=progress)
            click.echo(
                f"{signal.name}: {len(signal)} sentences, {len(signal.lengths)} rows, {signal.values.size} values"
            )


def _usual(extractor: Extractor) -> tuple[str, ...]:
    """Of a recorded run the probes that were recorded, for it holds no weights to compute others with."""
    if extractor.run.recorded:
        return tuple(extractor.run.record.probes)
    return extractor.usual_probes()
