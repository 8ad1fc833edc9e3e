"""What this plugin registers; importing it imports neither torch nor any model."""

from ktiwprobe import hookimpl
from ktiwprobe.hookspecs import Register


@hookimpl
def register_models(register: Register) -> None:
    """The paper's two models."""
    register("lstm-seq2seq", "ktiwprobe_paper.seq2seq:Seq2Seq", summary="LSTM or GRU translator with dot attention")
    register("lstm-classifier", "ktiwprobe_paper.classifier:Classifier", summary="bi-LSTM classifier with attention")


@hookimpl
def register_tasks(register: Register) -> None:
    """Generated corpora whose truth is known."""
    register(
        "toy-translation", "ktiwprobe_paper.toy_translation:ToyTranslation", summary="generated, gold alignment known"
    )
    register(
        "toy-sentiment", "ktiwprobe_paper.toy_sentiment:ToySentiment", summary="generated, polarity words and negation"
    )
    register("copy", "ktiwprobe_paper.sequences:Copy", summary="repeat a sequence of symbols; vocabulary=40 is hard")
    register("permute", "ktiwprobe_paper.sequences:Permute", summary="repeat a sequence in one fixed other order")
    register("keyword", "ktiwprobe_paper.sequences:Keyword", summary="does word 1 occur in a sequence of 40")
