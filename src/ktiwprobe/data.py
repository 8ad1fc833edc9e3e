"""Public names for tasks and for models that read their corpora; each is defined in `ktiwprobe.corpus`."""

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.corpus.corpus import Corpus, Example, Stream, each_token_a_word, order_of_epoch, training_batches
from ktiwprobe.corpus.needs import DataNeeds, statistics
from ktiwprobe.corpus.place import data_folder, data_in
from ktiwprobe.corpus.ragged import Lazy, Ragged
from ktiwprobe.corpus.split import Split
from ktiwprobe.corpus.tokens import BOS, EOS, PAD, SPECIALS, UNK, TokenRoles

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SPECIALS",
    "UNK",
    "Batch",
    "Corpus",
    "DataNeeds",
    "Example",
    "Lazy",
    "Ragged",
    "Split",
    "Stream",
    "TokenRoles",
    "data_folder",
    "data_in",
    "each_token_a_word",
    "order_of_epoch",
    "statistics",
    "training_batches",
]
