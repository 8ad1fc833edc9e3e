"""Tracer: alpha, beta, delta and performance of a Hugging Face model while somebody else's loop trains it.

A callback for transformers' Trainer, and `trace_step` for any other loop. Both write an ordinary run.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, TrainerCallback
from transformers.models.auto import modeling_auto as auto

from ktiwprobe import Batch, Corpus, Recorder, Split
from ktiwprobe.errors import CorpusError, PluginError, UsageError
from ktiwprobe.probes.probing import evaluating
from ktiwprobe_transformers.classifier import HfClassifier
from ktiwprobe_transformers.forcing import SUPPORTED
from ktiwprobe_transformers.language import HfCausalLm, HfMaskedLm
from ktiwprobe_transformers.model import HfModel
from ktiwprobe_transformers.probe_sets import as_corpus
from ktiwprobe_transformers.seq2seq import HfSeq2Seq

KINDS: tuple[tuple[type[HfModel], Any], ...] = (
    (HfSeq2Seq, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES),
    (HfClassifier, auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES),
    (HfMaskedLm, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES),
    (HfCausalLm, auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
)


def as_model(network: nn.Module, *, site: str | None = None, tokenizer: Any = None, memory: int = 512) -> HfModel:
    """A network of transformers as a model that can be probed; the network itself is used, not copied or changed."""
    names = {cls.__name__ for cls in type(network).__mro__}
    pair = getattr(getattr(network, "config", None), "is_encoder_decoder", False)
    kinds = [cls for cls, known in KINDS if names & _flat(known)]
    found = next((cls for cls in kinds if pair or cls is not HfSeq2Seq), None)
    if found is None or not isinstance(network, PreTrainedModel):
        raise PluginError(
            f"{type(network).__name__} is no seq2seq, classification, masked or causal language model of transformers: "
            f"supported are {SUPPORTED}; for a module of your own write trace and use ktiwprobe.Recorder"
        )
    classifies = found is HfClassifier
    config: Any = network.config
    if classifies:
        _refuse_regression(network, config)
    V = int(config.num_labels if classifies else config.get_text_config().vocab_size)
    with evaluating(network), torch.random.fork_rng(devices=[]):  # sites are found by a small pass
        model = found(network, found.Options(site=site, memory=memory), V=V)
        model.settle()
    if isinstance(model, HfMaskedLm):
        if getattr(tokenizer, "mask_token_id", None) is None:
            raise UsageError(
                "a masked language model is traced with its tokenizer, which knows the mask token: pass it"
            )
        model.mask_id = int(tokenizer.mask_token_id)
    return model


class Tracer(TrainerCallback):
    """Records what a model's attention does while a Trainer trains it: `Trainer(..., callbacks=[Tracer(examples)])`.

    `probe_set` holds tokenised examples (input_ids, labels), as the Trainer's own data sets do, or is a Corpus with
    the model's ids. `site` chooses layers and heads as -o site= does. Further words are those of ktiwprobe.Recorder:
    task, model (by default the network's class), seed (the Trainer's), settings, at, probes, runs, overwrite.
    """

    def __init__(
        self, probe_set: Any, *, tokenizer: Any = None, site: str | None = None, memory: int = 512, **about: Any
    ) -> None:
        if probe_set is None:
            raise UsageError("there is no probe set: pass examples with input_ids and labels, or a Corpus")
        self.probe_set, self.tokenizer, self.about = probe_set, tokenizer, about
        self.site, self.memory = site, memory
        self._traced: tuple[HfModel, Recorder] | None = None

    @property
    def run(self) -> Any:
        """The run, once training has begun."""
        if self._traced is None:
            raise UsageError("nothing is traced yet: the run begins with the training")
        return self._traced[1].run

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin the run, or take it up where the Trainer does; refuses at once what cannot be traced."""
        if state.is_world_process_zero:
            model, recorder = self._attach(kwargs["model"], args, kwargs)
            if state.global_step:
                recorder.resume(model, state.global_step)
            self._trace(state.global_step, recorder.due(state.global_step))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record the step if it is of the schedule."""
        if self._traced is not None:
            self._trace(state.global_step, self._traced[1].due(state.global_step))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Record the last step in any case."""
        if self._traced is not None:
            self._trace(state.global_step, True)

    def _attach(self, network: nn.Module, args: Any, rest: Any) -> tuple[HfModel, Recorder]:
        tokenizer = self.tokenizer or rest.get("processing_class")
        model = as_model(network, site=self.site, tokenizer=tokenizer, memory=self.memory)
        about = {"seed": int(args.seed), "epoch": _epoch(args, rest.get("train_dataloader")), **self.about}
        self._traced = model, make_recorder(model, self.probe_set, tokenizer, about)
        self._traced[1].prepare(model)
        return self._traced

    def _trace(self, step: int, wanted: bool) -> None:
        if self._traced is None or not wanted:
            return
        model, recorder = self._traced
        if step not in recorder.run.steps():
            recorder.record(model, step)


def trace_step(
    model: nn.Module, batch: Any, step: int, *, tokenizer: Any = None, site: str | None = None, **about: Any
) -> bool:
    """Record a network after `step` updates over a batch that stays the same; returns whether the step was due.

    For loops that are not a Trainer's. `batch` has input_ids and labels; `about` are the words of ktiwprobe.Recorder.
    """
    if "overwrite" in about:  # each call would begin anew
        raise UsageError("trace_step goes on with the run it finds: remove that with `ktiwprobe rm`, or use a Recorder")
    wrapped = as_model(model, site=site, tokenizer=tokenizer)
    return make_recorder(wrapped, batch, tokenizer, about).trace_step(wrapped, step)


def make_recorder(model: HfModel, probe_set: Any, tokenizer: Any, about: dict[str, Any]) -> Recorder:
    """A recorder of the model over the probe set, named after the network unless told otherwise."""
    about = {"model": type(model.network).__name__, "task": "traced", **about}
    if isinstance(probe_set, (Corpus, Batch)):
        if isinstance(probe_set, Corpus) and not isinstance(model, HfCausalLm):
            _refuse_places(probe_set, type(model).__name__)
        return Recorder(probe_set, **about)
    return Recorder(as_corpus(probe_set, model, tokenizer, task=about["task"]), **about)


def _refuse_regression(network: nn.Module, config: Any) -> None:
    """A network that predicts numbers, or several labels at once, has no one right output to probe."""
    kind = getattr(config, "problem_type", None)
    if config.num_labels == 1 or kind in ("regression", "multi_label_classification"):
        what = "multi-label classification" if kind == "multi_label_classification" else "regression"
        raise PluginError(
            f"{type(network).__name__} is for {what} (num_labels={config.num_labels}, problem_type={kind}): only "
            "classifiers that choose one of several labels can be probed"
        )


def _refuse_places(corpus: Corpus, name: str) -> None:
    for split, part in corpus.splits.items():
        if isinstance(part, Split) and part.y_at is not None:
            raise CorpusError(
                f"split {split!r} of the probe set has y_at, an input position for each output, and {name} does not "
                "predict the next token at each position: pass it without"
            )


def _flat(names: Any) -> set[str]:
    """The class names of a mapping of transformers, some of whose values are several."""
    found: set[str] = set()
    for value in names.values():
        found |= {value} if isinstance(value, str) else set(value)
    return found


def _epoch(args: Any, loader: Any) -> int | None:
    """Updates in an epoch, where the loader knows its length."""
    if loader is None or not hasattr(loader, "__len__"):
        return None
    return max(1, -(-len(loader) // int(args.gradient_accumulation_steps)))
