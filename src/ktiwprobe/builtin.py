"""What the core itself registers, through the same door as any plugin."""

from ktiwprobe.hookspecs import Register, hookimpl


@hookimpl
def register_probes(register: Register) -> None:
    """The paper's quantities, defined for any model with `trace`."""
    register("alpha", "ktiwprobe.probes:alpha", summary="attention weights")
    register("beta", "ktiwprobe.probes:beta", summary="log-odds of the right output if only one position is attended")
    register("gamma", "ktiwprobe.probes:beta", summary="beta under its other name: both are stored as log-odds")
    register("delta", "ktiwprobe.probes:delta", summary="saliency: gradient of log p times the input embedding")
    register(
        "alpha-opt", "ktiwprobe.optimal:alpha_opt", summary="the attention that would make the right output likeliest"
    )


@hookimpl
def register_metrics(register: Register) -> None:
    """Agreement of two signals, row by row."""
    register("agreement", "ktiwprobe.metrics:Agreement", summary="A(u, v): is u's peak among v's highest 5 %")
    register("kendall", "ktiwprobe.metrics:Kendall", summary="Kendall's tau-b")
    register("spearman", "ktiwprobe.metrics:Spearman", summary="Spearman's rho")
    register("top-k", "ktiwprobe.metrics:TopK", summary="overlap of the k highest positions")
    register("aer", "ktiwprobe.metrics:AlignmentErrorRate", summary="alignment error rate against gold links")
