"""What the core itself registers, through the same door as any plugin."""

from ktiwprobe.plugins.hookspecs import Register, hookimpl
from ktiwprobe.plugins.run_kinds import RunKind


@hookimpl
def register_probes(register: Register) -> None:
    """The paper's quantities, defined for any model with `trace`."""
    home = "ktiwprobe.probes"
    beta = f"{home}.definitions:beta"
    register("alpha", f"{home}.definitions:alpha", summary="attention weights")
    register("beta", beta, summary="log-odds of the right output if only one position is attended")
    register("gamma", beta, summary="another name of beta, for the log-odds in which it is stored", same_as="beta")
    register("delta", f"{home}.definitions:delta", summary="saliency: gradient of log p times the input embedding")
    register("alpha-opt", f"{home}.optimal:alpha_opt", summary="the attention that makes the right output likeliest")


@hookimpl
def register_metrics(register: Register) -> None:
    """Agreement of two signals, row by row."""
    register(
        "agreement",
        "ktiwprobe.compare.metrics:Agreement",
        summary="A(u, v): is u's peak among v's highest 5 %",
        default=True,
    )
    register("kendall", "ktiwprobe.compare.metrics:Kendall", summary="Kendall's tau-b")
    register("spearman", "ktiwprobe.compare.metrics:Spearman", summary="Spearman's rho")
    register("top-k", "ktiwprobe.compare.metrics:TopK", summary="overlap of the k highest positions")
    register("aer", "ktiwprobe.compare.metrics:AlignmentErrorRate", summary="alignment error rate against gold links")


@hookimpl
def register_run_kinds(register: Register) -> None:
    """Runs of a group that were trained under another attention."""
    uf = RunKind(
        "uniform attention", attention="uniform", dash=(1, 1), superscript="ᵘᶠ", shows=("knowledge", "saliency")
    )
    fr = RunKind(
        "frozen beta", attention="frozen-beta", dash=(6, 1, 1, 1), superscript="ᶠʳ", shows=("attention", "knowledge")
    )
    for name, kind in (("uf", uf), ("fr", fr)):
        register(name, kind, summary=kind.label)


@hookimpl
def register_engines(register: Register) -> None:
    """Where the jobs of a sweep run."""
    register("local", "ktiwprobe.training.local:Local", summary="processes of this machine", default=True)
    register("ray", "ktiwprobe.training.ray:Ray", summary="a Ray cluster, or Ray on this machine")


@hookimpl
def register_commands(register: Register) -> None:
    """The command line, in the order of `ktiwprobe --help`; a summary is the first line of the command's own help."""
    for name, summary in (
        ("train", "Train MODEL and keep checkpoints of it."),
        ("extract", "Compute and store signals of RUN, or how well it performs."),
        ("agree", "Compare two signals: does V know what U points at?"),
        ("align", "Turn a signal into links between words, and judge them."),
        ("show", "Show one sentence of a run in the terminal."),
        ("plot", "Draw a figure for a paper."),
        ("report", "Write one page that tells a run's whole story."),
        ("reproduce", "Run one claim of the paper: table, figures and verdict."),
        ("sweep", "Train a grid of runs, several at a time."),
        ("dictionary", "Look WORD up in the dictionary that models have learned."),
        ("data", "Say which data sets are here, and what they hold."),
        ("ls", "List what is registered, options, runs, or a model's sites."),
        ("plugins", "List the plugins: what each brings, and which failed."),
        ("rm", "Delete RUN with its checkpoints and signals."),
        ("check", "Hold what a plugin brings to the contract."),
        ("new-plugin", "Write an installable plugin with one model and one test."),
        ("doctor", "Say what this installation has, and whether it can work."),
    ):
        register(name, f"ktiwprobe.cli.{name.replace('-', '_')}:command", summary=summary)
