"""What this plugin registers; importing it imports neither torch nor transformers."""

from ktiwprobe import hookimpl
from ktiwprobe.plugins.hookspecs import Register


@hookimpl
def register_models(register: Register) -> None:
    """Hugging Face models, pretrained or from scratch."""
    home = "ktiwprobe_transformers"
    for name, target, summary in (
        ("hf-seq2seq", "seq2seq:HfSeq2Seq", "any Hugging Face encoder-decoder, by cross-attention"),
        ("hf-classifier", "classifier:HfClassifier", "any Hugging Face classifier, from its pooled position"),
        ("hf-causal-lm", "language:HfCausalLm", "any Hugging Face language model, left to right"),
        ("hf-masked-lm", "language:HfMaskedLm", "any Hugging Face masked language model"),
    ):
        register(name, f"{home}.{target}", summary=summary)


@hookimpl
def register_tasks(register: Register) -> None:
    """Text for language models."""
    register("plain-text", "ktiwprobe_transformers.plain_text:PlainText", summary="a file of texts, or generated ones")


@hookimpl
def register_experiments(register: Register) -> None:
    """The paper's question, asked of transformers."""
    register(
        "transformer-dynamics",
        "ktiwprobe_transformers.dynamics:TransformerDynamics",
        summary="3, 4: does word knowledge come before attention in a transformer",
    )
