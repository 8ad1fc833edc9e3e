"""The count table C (Sections 4.2 and 4.3, Figures 1, 4, 5 and 8): the same for the proxy and for IBM Model 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ktiwprobe import Corpus, Split
from ktiwprobe.errors import KtiwprobeError
from ktiwprobe.experiments import Context, Result
from ktiwprobe.plots import Panel, matrices
from ktiwprobe.plugins.options import options_of
from ktiwprobe_paper.ibm1 import count_table, training_split

Floats = NDArray[np.float64]
SHOWN = 24  # words of a picture's side, where they have names
RARE = 20  # a word that occurs less often has no polarity to speak of
SAMPLES = 2000
CASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "translation (Fig. 1)": ("toy-translation", {}),
    "permutations (Fig. 4)": ("copy", {"vocabulary": 40}),
    "40 of 60": ("copy", {}),
    "mixture (Fig. 8)": ("copy", {"vocabulary": 40, "sets": 2}),
    "classification (Fig. 5)": ("toy-sentiment", {}),
}
PAPER = {
    "translation (Fig. 1)": "informative",
    "permutations (Fig. 4)": "non-informative",
    "40 of 60": "informative",
    "mixture (Fig. 8)": "tells the set, not the word",
    "classification (Fig. 5)": "polarity words stand out",
}


class Case(NamedTuple):
    """One corpus and its two tables."""

    corpus: Corpus
    split: Split
    proxy: Floats  # C of the proxy, cell by cell from its definition. (I, O)
    ibm: Floats  # C of IBM Model 1, as the model counts it. (I, O)

    @property
    def trans(self) -> Floats:
        """C with rows that sum to 1: Trans(o | i). (I, O)"""
        shares: Floats = self.ibm / np.maximum(self.ibm.sum(1, keepdims=True), 1e-300)
        return shares


class CountTable:
    """C of five corpora, counted in two ways."""

    claim: ClassVar[str] = (
        "The count table of the proxy's first gradient is that of IBM Model 1; it tells words apart in translation and "
        "classification, and not under permutations of one set of symbols (Sections 4.2 and 4.3, Figures 1, 4, 5, 8)."
    )
    seeds: ClassVar[Sequence[int]] = (0,)
    small_seeds: ClassVar[Sequence[int]] = (0,)
    takes: ClassVar[Sequence[str]] = ()

    def run(self, context: Context) -> Result:
        """Count, compare, and see whether C points at the right word."""
        cases = {name: _case(context, *what) for name, what in CASES.items()}
        for name, case in cases.items():
            if not np.allclose(case.proxy, case.ibm, atol=1e-9):
                raise KtiwprobeError(f"C of the proxy and of IBM Model 1 differ for {name}: one of them is wrong")
        table = [_row(name, case) for name, case in cases.items()]
        knows = {row["corpus"]: row["C points at the right word"] for row in table}
        told = all(knows[name] > 2 * row["chance"] for row in table if (name := row["corpus"]) not in BLIND)
        blind = all(knows[name] < 2 * row["chance"] for row in table if (name := row["corpus"]) in BLIND)
        return Result(
            verdict="C of the proxy is C of IBM Model 1 in all five corpora (largest difference "
            f"{max(row['largest difference'] for row in table):.1g}); its largest entry is right for "
            f"{knows['translation (Fig. 1)']:.0%} of linked outputs in translation, {knows['40 of 60']:.0%} with 40 of "
            f"60 symbols, {knows['permutations (Fig. 4)']:.0%} under permutations and {knows['mixture (Fig. 8)']:.0%} "
            "under the mixture.",
            holds=told and blind,
            table=table,
            curves=[
                {"corpus": name, "input": case.corpus.source_tokens[i], "output": case.corpus.target_tokens[o], "C": C}
                for name, case in cases.items()
                for i, o, C in _shown_cells(case)
            ],
            figures={
                "count-tables": matrices(
                    {name: _picture(case) for name, case in cases.items()}, ylabel="input word", xlabel="output word"
                )
            },
            notes=[
                f"Counted over {SAMPLES} training examples. The proxy's C is summed cell by cell from Equation 14, IBM "
                "Model 1's is the model's own sparse product.",
                "C points at the right word: for each linked output, whether its linked input has the largest "
                "Trans(o | i) of its sentence (the first of equals); for classification, the evidence of the label.",
                "Pictures show C with rows that sum to 1. Translation: the most frequent words and the outputs that "
                "they are linked to most; classification: the most polar words; no special tokens.",
            ],
        )


BLIND = ("permutations (Fig. 4)", "mixture (Fig. 8)")


def _case(context: Context, task: str, options: Mapping[str, Any]) -> Case:
    owner = context.registry.load("tasks", task)
    corpus = owner().load(options_of(owner)(**options))
    split = sample(corpus, SAMPLES)
    sizes = corpus.source_size, corpus.target_size
    return Case(corpus, split, by_definition(split, *sizes), count_table(split, *sizes).toarray())


def by_definition(split: Split, I: int, O: int) -> Floats:  # noqa: E741
    """Σ_m Σ_l Σ_t 1/L 1[x_l = i] 1[y_t = o], sentence by sentence. (I, O)"""
    C = np.zeros((I, O))
    for m in range(len(split)):
        np.add.at(C, (split.x[m][:, None], split.y[m][None, :]), 1 / len(split.x[m]))
    return C


def _row(name: str, case: Case) -> dict[str, Any]:
    right, chance = points_right(case)
    return {
        "corpus": name,
        "largest difference": float(np.abs(case.proxy - case.ibm).max()),
        "C points at the right word": right,
        "chance": chance,
        "paper": PAPER[name],
    }


def points_right(case: Case) -> tuple[float, float]:
    """Over linked outputs of the validation split: is the highest Trans(o | i) at a linked input? And by chance?"""
    split = case.corpus.split("validation")
    trans = case.trans
    hits, chances = [], []
    for m in range(len(split)):
        links = split.links[m] if split.links is not None else np.zeros((0, 3), int)
        for t in np.unique(links[:, 0]):
            linked = links[links[:, 0] == t, 1]
            hits.append(trans[split.x[m], split.y[m][t]].argmax() in linked)
            chances.append(len(linked) / len(split.x[m]))
    return float(np.mean(hits)), float(np.mean(chances))


def _order(case: Case) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The words of a picture: for symbols all, for labels the most polar words, else the most frequent with links."""
    inputs = np.array([i for i, token in enumerate(case.corpus.source_tokens) if not token.startswith("<")])
    if case.corpus.task == "copy":
        return inputs, inputs
    counts = np.bincount(case.split.x.values, minlength=case.corpus.source_size)
    if case.corpus.kind == "classification":
        known = inputs[counts[inputs] >= RARE]
        polar = known[np.argsort(case.trans[known, -1], kind="stable")]
        return np.concatenate([polar[: SHOWN // 2], polar[-SHOWN // 2 :]]), np.arange(case.corpus.target_size)
    pairs = _linked_pairs(case)
    inputs = np.array(sorted((i for i in inputs if pairs[i].any()), key=lambda i: -counts[i])[:SHOWN])
    return inputs, np.array(list(dict.fromkeys(pairs[inputs].argmax(1).tolist())))


def _linked_pairs(case: Case) -> Floats:
    """How often each input word is linked to each output word. (I, O)"""
    pairs = np.zeros_like(case.ibm)
    x, y, links = case.split.x, case.split.y, case.split.links
    if links is not None:
        m = np.repeat(np.arange(len(case.split)), links.lengths)
        t, l = links.values[:, 0], links.values[:, 1]  # noqa: E741
        np.add.at(pairs, (x.values[x.offsets[m] + l], y.values[y.offsets[m] + t]), 1)
    return pairs


def _picture(case: Case) -> Panel:
    inputs, outputs = _order(case)
    named = len(inputs) <= SHOWN
    return Panel(
        case.trans[np.ix_(inputs, outputs)],
        [case.corpus.source_tokens[i] for i in inputs] if named else (),
        [case.corpus.target_tokens[o] for o in outputs] if named else (),
    )


def _shown_cells(case: Case) -> list[tuple[int, int, float]]:
    inputs, outputs = _order(case)
    return [(int(i), int(o), float(case.ibm[i, o])) for i in inputs for o in outputs]


def sample(corpus: Corpus, count: int) -> Split:
    """`count` training examples: the first of the split, or of a stream."""
    split = training_split(corpus, count)
    return split.subset(np.arange(min(count, len(split))))
