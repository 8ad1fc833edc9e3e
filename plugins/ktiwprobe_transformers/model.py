"""HfModel: what all Hugging Face models share: sites, trace, beta, and which weights learn.

A model of a kind says how it runs (`logits`) and which of its queries are outputs (`rows`); the rest is here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ktiwprobe import Batch, Corpus, TorchModel, Trace, option
from ktiwprobe.errors import CorpusError, KtiwprobeError, PluginError
from ktiwprobe.models.attend import by_site
from ktiwprobe.models.scoring import nll_of_logits
from ktiwprobe.probes.probing import evaluating
from ktiwprobe_transformers.betas import at_each_site, beta_of, one_row_at_a_time
from ktiwprobe_transformers.faithful import check_faithful, folds_exactly, rows_mix
from ktiwprobe_transformers.forcing import Call, Force, Key, Watch, four_dimensions, refusal, watching
from ktiwprobe_transformers.gating import embeddings_of_ids, gated
from ktiwprobe_transformers.lengths import check_right_padding, depend_on_text, is_padded, trace_by_length
from ktiwprobe_transformers.loading import quiet
from ktiwprobe_transformers.networks import empty_network, fresh_network, pretrained_network, shapes_alone
from ktiwprobe_transformers.retokenise import check_lengths, retokenised, without_long
from ktiwprobe_transformers.sites import LOOKS, Layer, Place, choose_places, find_layers
from ktiwprobe_transformers.tuning import attention_entries, leave_idle_out, slower

FULL = 1e-2  # by how much a row of weights may fall short of 1 by rounding
SMALL = 200_000_000  # weights that are drawn at random only to see the sites of a network
TINY = 8  # inputs of the sentence that a model's sites are found with


@dataclass(frozen=True)
class HfOptions:
    """Which network, and where to look into it. With a path, the sizes are those of the pretrained model."""

    path: str = option("", help="a pretrained model: its folder, or its name on the hub; none: from scratch")
    config: str = option("bert", help="architecture from scratch: a type, a pair such as bert+gpt2, or a config.json")
    layers: int = option(2, low=1, help="from scratch: layers of the encoder, and of the decoder")
    hidden: int = option(128, low=1, help="from scratch: width of states")
    heads: int = option(4, low=1, help="from scratch: attention heads of a layer")
    dropout: float = option(0.1, low=0.0, high=1.0, help="from scratch")
    site: str | None = option(
        None, help="layers and heads to read and replace: self:-1, self:all, self:3.h5; none: last"
    )
    rows: Literal["all", "single"] = option("all", help="outputs whose attention is replaced in one pass")
    memory: int = option(512, low=1, help="megabytes that beta may take beside the model")
    longest: int | None = option(None, low=1, help="tokens above which a sentence is left out; none: all must fit")
    slower: float = option(0.05, low=0.0, help="pretrained weights learn at this share of lr, new ones at lr")
    remote_code: bool = option(False, help="run Python code that comes with the weights")
    pickle: bool = option(False, help="load pickled weights, which can run code")

    def __post_init__(self) -> None:
        for name in ("path", "config"):  # a run must find its folder from wherever it is probed
            if (found := Path(getattr(self, name)).expanduser()).exists() and getattr(self, name):
                object.__setattr__(self, name, str(found.resolve()))


class HfModel(TorchModel):
    """A Hugging Face network that can run under an attention one chooses."""

    Options: ClassVar[type] = HfOptions
    version: ClassVar[int] = 2  # 2: masks are those of the site, so windows are not forced beyond
    training_defaults: ClassVar[Mapping[str, Any]] = {"batch": 32, "lr": 1e-3}
    auto: ClassVar[str]  # the transformers class that makes the network
    kinds: ClassVar[tuple[str, ...]]  # of corpora
    groups: ClassVar[tuple[str, ...]] = ("self",)  # of sites that look from outputs at inputs
    outputs: ClassVar[int | None] = None  # of the tiny sentence, where a decoder has its own
    pools: ClassVar[bool] = False  # whether one position speaks for all

    def __init__(self, network: nn.Module, options: Any, *, V: int, shift: int = 0) -> None:
        super().__init__()
        self.network, self.options, self.V, self.shift = network, options, V, shift
        self.pretrained: frozenset[str] = frozenset()  # names of the weights that came with the network
        self.sinks = False  # whether rows of alpha may sum to less than 1
        self._noted: tuple[Batch, Tensor, int] | None = None  # where the rows of the last batch could look
        self._mixes: bool | None = None  # whether rows meet again after the site, once it was measured
        self._alone = False  # whether padding shows
        self._folds: bool | None = None  # whether beta may leave out what comes before the site, once it was measured
        self._embeddings: list[nn.Module] | None = None  # in which input ids are looked up, once it was measured
        self.layers = self._find_layers()
        self.places: list[Place] = []
        self.look_at(options.site)

    @classmethod
    def prepare(cls, corpus: Corpus, options: Any) -> Corpus:
        """The corpus as the network reads it: with a pretrained one's own tokenizer."""
        read = retokenised(corpus, options, sides=2 if cls.groups == ("cross",) else 1) if options.path else corpus
        return without_long(read, options.longest)

    @classmethod
    def build(cls, corpus: Corpus, options: Any) -> HfModel:
        """The pretrained network, or a fresh one; refuses sentences that are too long for it."""
        cls.check_kind(corpus)
        shift = 0 if corpus.joint or cls.groups != ("cross",) else corpus.source_size
        if options.path:
            network, came = pretrained_network(cls.auto, corpus, options)
        else:
            network, came = fresh_network(cls.auto, corpus, options, shift), frozenset()
        check_lengths(corpus, network)
        model = cls(network, options, V=corpus.target_size, shift=shift)
        model.pretrained = came
        model.settle()
        leave_idle_out(model)
        return model

    @classmethod
    def check_kind(cls, corpus: Corpus) -> None:
        """Refuse a corpus that is not for this model."""
        if corpus.kind not in cls.kinds:
            raise CorpusError(
                f"task {corpus.task} is {corpus.kind}, and {cls.__name__} is for {' or '.join(cls.kinds)}"
            )

    @classmethod
    def list_sites(cls, options: Any) -> list[dict[str, Any]]:
        """The attentions of the network that the options mean, without loading its weights."""
        empty = empty_network(cls.auto, options)
        try:
            with shapes_alone():
                model = cls(empty, options, V=2)
        except PluginError:  # perhaps for want of values only, which a small network can be given
            if sum(p.numel() for p in empty.parameters()) > SMALL:
                raise
            model = cls(empty_network(cls.auto, options, weights=True), options, V=2)
        return [
            {
                "site": layer.name,
                "heads": layer.heads,
                "looks": LOOKS[layer.group, cls.outputs is not None],
                "chosen": "yes" if any(place.layer is layer for place in model.places) else "",
            }
            for layer in model.layers
        ]

    def settle(self) -> None:
        """Find out what can be known only of a network with weights."""

    # where it looks

    def look_at(self, site: str | None) -> None:
        """Read and replace the attention at `site` from now on; None: at the last that looks from outputs at inputs."""
        text = site or f"{self.groups[0]}:-1"
        self.places = choose_places(text, self.layers, self.groups, self.network)
        self.sites = tuple(name for place in self.places for name in place.names)
        self._noted = self._mixes = None

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Other weights; what was measured of the old ones is forgotten."""
        super().load_state(state)
        self._noted = self._mixes = None

    def rows(self, batch: Batch) -> Tensor | None:
        """Which queries are outputs (B, T); None: all of them, in order."""
        return None

    def forces(self, batch: Batch, attend: Tensor | None) -> dict[Key, Force]:
        """What to do at each chosen layer under `attend`, broadcastable to (B, S, T, L)."""
        attend = None if attend is None else four_dimensions(attend)
        rows, start = self.rows(batch), 0
        found: dict[Key, Force] = {}
        for place in self.places:
            end = start + len(place.heads)
            part = attend if attend is None or attend.shape[1] == 1 else attend[:, start:end]
            found |= dict.fromkeys(place.layer.keys, Force(place.heads, part, rows))
            start = end
        return found

    @torch.no_grad()
    def allowed(self, batch: Batch) -> Tensor:
        """Where each row may look: read from the mask that the network used at the site.

        (B, T, L) or, where the chosen sites differ, (B, S, T, L).
        """
        if self._noted is None or self._noted[0] is not batch or self._noted[2] != self._edition:
            with evaluating(self.network):
                self.trace(batch)
        return self._noted[1]  # type: ignore[index]

    @property
    def _edition(self) -> int:
        """A number that grows with every change of the weights."""
        return sum(parameter._version for parameter in self.network.parameters())

    def seen(self, batch: Batch, watch: Watch) -> Tensor:
        """Where rows could look in a pass. (B, T, L) or (B, S, T, L)"""
        masks = [watch.seen[place.layer.keys[0]] for place in self.places]  # (B, heads or 1, T, L)
        L = batch.x.shape[1]
        if masks[0].shape[-1] != L:
            raise PluginError(
                f"{type(self.network).__name__} looks at {masks[0].shape[-1]} positions at {self.sites[0]} and its "
                f"input has {L}: only networks that attend to their inputs one for one can be probed"
            )
        real = batch.x_mask[:, None, None]
        if all(mask.shape[1] == 1 and torch.equal(mask & real, masks[0] & real) for mask in masks):
            return (masks[0] & real).squeeze(1)
        sizes = [len(place.heads) for place in self.places]
        return torch.cat([mask.expand(-1, n, -1, -1) for mask, n in zip(masks, sizes, strict=True)], 1) & real

    def note(self, batch: Batch, seen: Tensor) -> None:
        """Keep where the rows of a batch may look, for whoever asks next."""
        self._noted = batch, seen, self._edition

    def check_unmoved(self, seen: Tensor, own: Tensor) -> None:
        """Refuse to force several sites together where that changes where one of them may look (`own`: unforced)."""
        if not torch.equal(by_site(seen).expand_as(own), own):
            raise PluginError(
                f"where {type(self.network).__name__} may look depends on the text, and forcing {self.sites[0]} "
                f"changes what {self.sites[-1]} may see: choose one layer with -o site="
            )

    def outputs_within(self, x: Tensor, x_mask: Tensor, y: Tensor, y_mask: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs, and which of them count, once inputs were cut to `x` and `x_mask`."""
        return y, y_mask

    def gating(self, gate: Tensor | None) -> AbstractContextManager[None]:
        """While it lasts, the embeddings of the input are scaled by `gate` (B, L)."""
        if gate is not None and self._embeddings is None:
            self._embeddings = embeddings_of_ids(self)
        return gated(self._embeddings or (), gate)

    def read(self, batch: Batch) -> Any:
        """What no attention at the sites can change, to be given to `logits` as its `state`; None: nothing."""
        return None

    def logits(self, batch: Batch, *, gate: Tensor | None = None, state: Any = None) -> Tensor:
        """Run the network. (B, T, V)"""
        raise NotImplementedError(f"{type(self).__name__} needs logits(batch, gate=, state=)")

    # what the core asks for

    def trace(
        self, batch: Batch, *, attend: Tensor | None = None, gate: Tensor | None = None, state: Any = None
    ) -> Trace:
        """Run on `batch` under `attend`; with `rows=single`, each output in a pass in which only its row is forced."""
        check_right_padding(batch)
        self.check_recomputing()
        if self.reads_alone(batch):
            return trace_by_length(self, batch, attend, gate)
        if attend is not None and self.forces_one_row(batch):
            return one_row_at_a_time(self, batch, attend, gate)
        with watching(self.network, self.forces(batch, attend)) as watch:
            logits = self.logits(batch, gate=gate, state=state)
        if self.reads_alone(batch, watch):
            return trace_by_length(self, batch, attend, gate)
        if attend is None:
            self.note(batch, self.seen(batch, watch))
        elif len(self.places) > 1:
            self.check_unmoved(self.seen(batch, watch), at_each_site(self, batch))
        return Trace(logits, self.used(watch))

    def check_recomputing(self) -> None:
        """Refuse gradient checkpointing, whose second forward pass would run without the attention that was given."""
        network: Any = self.network
        if torch.is_grad_enabled() and network.training and getattr(network, "is_gradient_checkpointing", False):
            raise PluginError(
                f"{type(network).__name__} uses gradient checkpointing, which computes its attention once more when "
                "gradients are taken: call gradient_checkpointing_disable() to train it under a chosen attention"
            )

    def reads_alone(self, batch: Batch, watch: Watch | None = None) -> bool:
        """Whether sentences of different lengths must not be read together: seen from the masks of a pass, for good."""
        if watch is not None and not self._alone and is_padded(batch):
            self._alone = depend_on_text(watch.masks.values(), batch)
        return self._alone and is_padded(batch)

    def used(self, watch: Watch) -> Tensor:
        """The weights of the chosen sites in a pass. (B, S, T, L)"""
        return torch.cat([watch.used[place.layer.keys[0]] for place in self.places], 1)

    def forces_one_row(self, batch: Batch) -> bool:
        """Whether each output needs a pass of its own: if that is asked for, and forcing them together is not the same.

        That is measured on the first batch with several outputs.
        """
        if self.options.rows == "all" or batch.y.shape[1] < 2:
            return False
        if self._mixes is None:
            self._mixes = rows_mix(self, batch)
        return self._mixes

    def check_faithful(self, batch: Batch, *, forcing: bool) -> None:
        """Refuse a network whose numbers would not be its own; see faithful.py."""
        check_faithful(self, batch)

    def loss(self, batch: Batch, *, attend: Tensor | None = None) -> Tensor:
        """Mean -log p over the real outputs."""
        if attend is not None:
            return super().loss(batch, attend=attend)
        return nll_of_logits(self.logits(batch), batch.y)[batch.y_mask].mean()

    @torch.no_grad()
    def beta(self, batch: Batch) -> Tensor:
        """Log-odds of y_t with the chosen sites on l alone, without running again what comes before them. (B, T, L)

        Where that is not exact, which is measured on the first batch, the whole network runs again.
        """
        check_right_padding(batch)
        if self._folds is None:
            self._folds = folds_exactly(self, batch)
        return beta_of(self, batch, fold=self._folds)

    def attention_parameters(self) -> list[nn.Parameter]:
        """The weights that matter only through where the site looks; parts of others are held by a gradient mask."""
        return attention_entries(self)

    def optimiser(self, parameters: Iterable[nn.Parameter], *, lr: float) -> torch.optim.Optimizer:
        """Adam; pretrained weights learn more slowly than new ones."""
        return torch.optim.Adam(slower(self, parameters, lr=lr, share=self.options.slower), lr=lr, fused=True)

    # small passes

    @property
    def called(self) -> str:
        """What a sentence about the model calls it: the network's class."""
        return type(self.network).__name__

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    def tiny(self) -> Batch:
        """One sentence without meaning, to find things out with."""
        pad = self.pad
        ids = [i for i in range(TINY, -1, -1) if i != pad][:TINY]  # falling, so that they are no positions
        x = torch.tensor([ids], device=self.device)
        y = torch.zeros(1, self.outputs or 1, dtype=torch.int64, device=self.device)
        return Batch(x, torch.ones_like(x, dtype=torch.bool), torch.tensor([TINY]), y, torch.ones_like(y).bool())

    @property
    def text_config(self) -> Any:
        """The part of the network's config that is about text."""
        config: Any = self.network.config
        return config.get_text_config()

    @property
    def pad(self) -> int:
        """The id that stands on padding."""
        found = getattr(self.text_config, "pad_token_id", None)
        return 0 if found is None else int(found)

    def padded(self, batch: Batch) -> Tensor:
        """Input ids with the network's own id on padding. (B, L)"""
        return batch.x.masked_fill(~batch.x_mask, self.pad)

    def _find_layers(self) -> list[Layer]:
        calls: list[Call] = []
        name = type(self.network).__name__
        try:
            with torch.no_grad(), quiet(), evaluating(self.network), watching(self.network, observer=calls.append):
                self.logits(self.tiny())
        except KtiwprobeError:
            raise
        except Exception as error:  # whatever goes wrong inside of somebody else's network
            why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise PluginError(
                f"{name} cannot read a text of {TINY} tokens as {type(self).__name__} does: {why}"
            ) from error
        if not calls:
            raise refusal(self.network)
        if not calls[0].weights.is_meta:  # a learned sink takes weight from every row
            self.sinks = any(bool((call.weights.sum(-1) < 1 - FULL).any()) for call in calls)
        return find_layers(calls, outputs=self.outputs)
