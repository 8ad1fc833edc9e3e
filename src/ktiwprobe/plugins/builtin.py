"""What the core itself registers, through the same door as any plugin."""

from ktiwprobe.plugins.hookspecs import Register, hookimpl


@hookimpl
def register_probes(register: Register) -> None:
    """The paper's quantities, defined for any model with `trace`."""
    register("alpha", "ktiwprobe.probes.definitions:alpha", summary="attention weights")
    register(
        "beta",
        "ktiwprobe.probes.definitions:beta",
        summary="log-odds of the right output if only one position is attended",
    )
    register(
        "gamma", "ktiwprobe.probes.definitions:beta", summary="beta under its other name: both are stored as log-odds"
    )
    register(
        "delta", "ktiwprobe.probes.definitions:delta", summary="saliency: gradient of log p times the input embedding"
    )
    register(
        "alpha-opt",
        "ktiwprobe.probes.optimal:alpha_opt",
        summary="the attention that would make the right output likeliest",
    )


@hookimpl
def register_metrics(register: Register) -> None:
    """Agreement of two signals, row by row."""
    register("agreement", "ktiwprobe.compare.metrics:Agreement", summary="A(u, v): is u's peak among v's highest 5 %")
    register("kendall", "ktiwprobe.compare.metrics:Kendall", summary="Kendall's tau-b")
    register("spearman", "ktiwprobe.compare.metrics:Spearman", summary="Spearman's rho")
    register("top-k", "ktiwprobe.compare.metrics:TopK", summary="overlap of the k highest positions")
    register("aer", "ktiwprobe.compare.metrics:AlignmentErrorRate", summary="alignment error rate against gold links")
