"""ktiwprobe extract"""

from __future__ import annotations

import click

from ktiwprobe.cli.common import data_option, device_option, load_registry, quiet_option, runs_option, split_option


@click.command("extract")
@click.argument("run", required=False)
@click.option(
    "--probe",
    "probes",
    multiple=True,
    metavar="NAME",
    help="Which signals. [default: alpha, beta and, with attention, delta]",
)
@click.option("--at", default="best", show_default=True, metavar="WHEN", help="best, last, all, or a step.")
@split_option
@runs_option
@data_option
@device_option
@quiet_option
def command(
    run: str | None, probes: tuple[str, ...], at: str, split: str, runs: str | None, device: str, quiet: bool
) -> None:
    """Compute and store signals of RUN (default: the latest run).

    Signals that are stored already are not computed again.

    \b
    ktiwprobe extract
    ktiwprobe extract lstm-seq2seq-s0 --probe beta --at all
    """
    from ktiwprobe.cli.progress import make_progress
    from ktiwprobe.extraction import Extractor
    from ktiwprobe.run import find_run, latest_run, runs_folder

    registry = load_registry()
    folder = runs_folder(runs)
    found = find_run(folder, run) if run else latest_run(folder)
    for probe in probes:
        registry.entry("probes", probe)
    extractor = Extractor(found, registry, split=split, device=device)
    steps = found.steps() if at == "all" else [extractor.step(at)]
    progress = make_progress(quiet)
    for step in steps:
        for probe in probes or (("alpha", "beta", "delta") if extractor.attends else ("alpha", "beta")):
            signal = extractor.signal(probe, step, progress=progress)
            click.echo(
                f"{signal.name}: {len(signal)} sentences, {len(signal.lengths)} rows, {signal.values.size} values"
            )
