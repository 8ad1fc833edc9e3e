"""The page docs/models.md: what the table says, how it was made, and a row for every pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import torch
import transformers
from benchmarks.models.check import LENGTHS, OUTCOMES, TOLERANCE, Result

LONGEST = 180  # characters of a reason

INTRODUCTION = """\
# Which Hugging Face models can be probed

This table has a row for every model type and kind that transformers maps for causal language modelling (`causal`),
masked language modelling (`masked`), sequence classification (`classifier`) and sequence-to-sequence language modelling
(`seq2seq`). Each network is tiny and has random weights: the table is about architectures, not about checkpoints.

| outcome | meaning |
| --- | --- |
| right | alpha, beta and delta equal an independent reference, at the first site and at the default site |
| refused | ktiwprobe raises the error in the last column instead of printing a number |
| wrong | a number differs from the reference: the last column says which, and by how much |
| traceback | ktiwprobe fails with an exception that is not one of its own errors |
| cannot be built | transformers alone cannot build the network, or cannot run it on text: the last column says why |

**How it was made.** `make models`, on {date}, with transformers {transformers} and torch {torch}. Three texts of
{lengths} tokens are probed as one padded batch. The reference runs each text alone, with the network's own eager
attention. For beta it overwrites the output rows of one attention layer with the value vector of one position and runs
the whole network again, once for each position, with all rows in one pass; for the second text also with one row in a
pass, which must equal beta under `-o rows=single`. For delta it scales the output of the input embedding. Two values
are equal if they differ by at most {tolerance:g}, relative to values above 1, and both sides must agree on which cells
a row may look at.

**Mechanisms** are those that were seen to act in the tiny network, measured and not read from its configuration. A
*window*, *chunk* or *top-k* hides cells from a row, a *sink* makes rows sum to less than 1, and a *position bias*
prefers positions whatever the query is. *QK norm*, *soft cap*, *experts* and *latent keys and values* change the
weights or the logits when they are switched off. *Other mixing of rows* means that positions still reach each other if
every attention layer returns 0, as through a convolution or a state space. Where the network's attention does not go
through the attention interface of transformers, its own mechanisms are not listed.
"""


def page_of(results: Sequence[Result]) -> str:
    """The whole page as Markdown."""
    introduction = INTRODUCTION.format(
        date=datetime.now(UTC).date().isoformat(),
        transformers=transformers.__version__,
        torch=torch.__version__.split("+")[0],
        lengths=", ".join(map(str, LENGTHS[:-1])) + f" and {LENGTHS[-1]}",
        tolerance=TOLERANCE,
    )
    table = ["| type | kind | outcome | mechanisms | reason |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([introduction, f"**{counts_of(results)}**", "", *table, *map(row_of, results), ""])


def counts_of(results: Sequence[Result]) -> str:
    """One sentence of counts."""
    counts = Counter(result.outcome for result in results)
    built = len(results) - counts["cannot be built"]
    outcomes = ", ".join(f"{counts[name]} {name}" for name in OUTCOMES)
    return f"{len(results)} pairs: {outcomes}; {counts['right'] / max(1, built):.1%} of the {built} built are right."


def row_of(result: Result) -> str:
    """One pair as a row of the table."""
    reason = result.reason if len(result.reason) <= LONGEST else result.reason[: LONGEST - 1].rstrip() + "…"
    reason = reason.replace("|", "\\|").replace("<", "&lt;")
    cells = [f"`{result.model_type}`", result.kind, result.outcome, ", ".join(result.acted), reason]
    return f"| {' | '.join(cells)} |"
