"""What this plugin registers; free of torch, since listing plugins imports it."""

from ktiwprobe import hookimpl


@hookimpl
def register_models(register):
    register("additive-gru", "ktiwprobe_additive_gru.model:AdditiveGru", summary="GRU translator, additive attention")
