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
