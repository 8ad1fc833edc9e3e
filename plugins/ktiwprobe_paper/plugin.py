"""What this plugin registers; importing it imports neither torch nor any model."""

from ktiwprobe import RunKind, hookimpl
from ktiwprobe.plugins.hookspecs import Register


@hookimpl
def register_models(register: Register) -> None:
    """The paper's two models, and three with word knowledge but no attention."""
    register(
        "lstm-seq2seq",
        "ktiwprobe_paper.seq2seq:Seq2Seq",
        summary="LSTM or GRU translator with dot attention",
        default=True,
    )
    register("lstm-classifier", "ktiwprobe_paper.classifier:Classifier", summary="bi-LSTM classifier with attention")
    register("bow-proxy", "ktiwprobe_paper.bow_proxy:BowProxy", summary="softmax of averaged word embeddings")
    register("ibm1", "ktiwprobe_paper.ibm1:Ibm1", summary="IBM Model 1: word translation by counts, then EM")
    register(
        "logistic-regression",
        "ktiwprobe_paper.logistic:LogisticRegression",
        summary="bag-of-words classifier, its penalty chosen on validation",
    )


@hookimpl
def register_tasks(register: Register) -> None:
    """Generated corpora whose truth is known."""
    register(
        "toy-translation",
        "ktiwprobe_paper.toy_translation:ToyTranslation",
        summary="generated, gold alignment known",
        default=True,
    )
    register(
        "toy-sentiment", "ktiwprobe_paper.toy_sentiment:ToySentiment", summary="generated, polarity words and negation"
    )
    register("copy", "ktiwprobe_paper.sequences:Copy", summary="repeat a sequence of symbols; vocabulary=40 is hard")
    register("permute", "ktiwprobe_paper.sequences:Permute", summary="repeat a sequence in one fixed other order")
    register("keyword", "ktiwprobe_paper.sequences:Keyword", summary="does word 1 occur in a sequence of 40")
    for name, target, summary in (
        ("multi30k", "translation:Multi30k", "image captions, German and English"),
        ("iwslt14", "translation:Iwslt14", "TED talks, German to English"),
        ("news-commentary", "translation:NewsCommentary", "news, en-nl, en-pt or it-pt"),
        ("parallel-text", "parallel:ParallelText", "your own sentence pairs: two files, a TSV or JSONL"),
        ("alignment-gold", "parallel:AlignmentGold", "words aligned by people: de-en, en-fr, en-es or en-nl"),
        ("imdb", "classification:Imdb", "movie reviews, negative or positive"),
        ("ag-news", "classification:AgNews", "world news against business"),
        ("20ng", "classification:Newsgroups", "newsgroups, baseball against hockey"),
        ("sst", "classification:Sst", "Stanford Sentiment Treebank, negative or positive"),
        ("amazon", "classification:Amazon", "product reviews, negative or positive"),
        ("yelp", "classification:Yelp", "reviews of 1-2 stars against 4-5"),
        ("sms", "classification:Sms", "text messages, spam or not"),
        ("labelled-text", "own:LabelledText", "your own labelled text: TSV, CSV or JSONL"),
        ("hf-dataset", "own:HfDataset", "any data set of the Hugging Face datasets library"),
    ):
        register(name, f"ktiwprobe_paper.text.{target}", summary=summary)


@hookimpl
def register_experiments(register: Register) -> None:
    """The paper's claims."""
    home = "ktiwprobe_paper.experiments"
    for name, target, summary in (
        ("table", "table:Table", "3, Table 1: attention, word knowledge and the proxy agree, on real text"),
        ("copying", "copying:Copying", "3.3: attention fails when word knowledge cannot be learned"),
        ("multihead", "multihead:Multihead", "5.2: one good head rescues seven bad ones"),
        ("locality", "locality:Locality", "6.1: what is known of a word does not stay at its place"),
        ("permutation-function", "permutation:PermutationFunction", "6.2: attention is not a free variable"),
        ("frozen-beta", "frozen:FrozenBeta", "A.6: attention alone learns little"),
        ("optimal-attention", "optimal:OptimalAttention", "A.1: where the best attention goes"),
        ("initial-gradient", "gradient:InitialGradient", "4.1, A.2: the proxy's first gradient is the count table"),
        ("count-table", "counts:CountTable", "4.2, 4.3: the proxy counts as IBM Model 1 does"),
        ("logistic-proxy", "logistic_proxy:LogisticProxy", "A.10: the proxy is a logistic regression"),
    ):
        register(name, f"{home}.{target}", summary=summary)


@hookimpl
def register_run_kinds(register: Register) -> None:
    """The models with word knowledge but no attention, as the paper's superscripts name them."""
    px = RunKind("the bag-of-words proxy", model="bow-proxy", dash=(2, 2), superscript="ᵖˣ")
    ibm = RunKind(
        "IBM Model 1",
        model="ibm1",
        dash=(4, 1, 1, 1, 1, 1),
        superscript="ⁱᵇᵐ",
        corpora=("translation", "text"),
    )
    log = RunKind(
        "logistic regression",
        model="logistic-regression",
        dash=(9, 3),
        superscript="ˡᵒᵍ",
        corpora=("classification",),
    )
    for name, kind in (("px", px), ("ibm", ibm), ("log", log)):
        register(name, kind, summary=kind.label)


@hookimpl
def register_schedules(register: Register) -> None:
    """When the paper keeps checkpoints."""
    home = "ktiwprobe_paper.schedules"
    register("paper-translation", f"{home}:translation", summary="0, 50, 100, 500, 1000, 1500, every 2000")
    register("paper-classification", f"{home}:classification", summary="0, 10, 50, 100, 150, 200, every 250")
