"""train(): from a recipe to a run directory, by gradient steps or by the model's own `fit`; resumes bit for bit.

(The module is not called train.py because a submodule of that name would hide the function `ktiwprobe.train`.)
"""

from __future__ import annotations

import contextlib
import inspect
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ktiwprobe.corpus.batch import Batch
from ktiwprobe.corpus.corpus import Corpus, training_batches
from ktiwprobe.errors import ContractError, CorpusError, Interrupted, RunError
from ktiwprobe.files.progress import SILENT, Progress, stop_when_asked
from ktiwprobe.plugins import capabilities
from ktiwprobe.plugins.capabilities import (
    Evaluates,
    HasAttentionParameters,
    HasBuffers,
    HasTrainMode,
    Trains,
    in_training,
    supports,
)
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.runs.recipe import Recipe, make_recipe
from ktiwprobe.runs.record import LENGTH
from ktiwprobe.runs.run import Run, runs_folder
from ktiwprobe.training.devices import choose_device

EVALUATED_CELLS = 2**17  # T x L of a batch: large enough for a recurrent layer to be busy
SECONDS_BETWEEN_SAVES = 60.0  # what a kill -9 can cost


def train(
    model: str,
    task: str | None = None,
    *,
    seed: int = 0,
    steps: int | None = None,
    attention: str = "learned",
    options: Mapping[str, Any] | None = None,
    runs: str | Path | None = None,
    name: str | None = None,
    resume: bool = False,
    device: str = "auto",
    registry: Registry | None = None,
    progress: Progress = SILENT,
) -> Run:
    """Train `model` on `task` and return its run; a finished run is returned as it is, more `steps` extend it."""
    values = dict(options or {}) | ({} if steps is None else {"train.steps": steps})
    recipe = make_recipe(registry or build_registry(), model, task, seed=seed, attention=attention, values=values)
    return follow(recipe, recipe.folder(runs_folder(runs), name), resume=resume, device=device, progress=progress)


def follow(recipe: Recipe, path: Path, *, resume: bool, device: str = "auto", progress: Progress = SILENT) -> Run:
    """Bring the run at `path` to where `recipe` wants it."""
    where = choose_device(device)
    with Run(path).lock(), _own_random_state(where):
        corpus = recipe.corpus()
        for note in corpus.notes:
            progress.say(note)
        target, run, reached = recipe.steps(corpus), Run(path), -1
        run.tidy()
        if run.exists:
            _check_same(Run.open(path), recipe, corpus)
            reached, aim = run.progress()
            if reached == aim and (reached >= target or recipe.fits_itself):
                return run
            if 0 < reached < aim and not resume:
                raise RunError(
                    f"run {run.name} stopped at step {reached} of {aim}: resume it, or remove it first",
                    hint="resume=True",
                )
            if not recipe.length_given:
                target = max(target, aim)
            if reached > target:
                raise RunError(f"run {run.name} is at step {reached} of {aim}: it cannot go on to step {target}")
        model = recipe.fresh_model(corpus, where, to_train=reached < 0)
        trainer = _Trainer(recipe, run, corpus, model, where, progress)
        if not run.exists:
            Run.create(path, recipe.record(corpus, model))
        if recipe.fits_itself:
            trainer.fit()
        else:
            trainer.descend(target)
    return run


class _Trainer:
    """One training job: the model, where it is, and what was logged. Making one refuses what cannot be trained."""

    def __init__(
        self, recipe: Recipe, run: Run, corpus: Corpus, model: Any, device: torch.device, progress: Progress
    ) -> None:
        self.recipe, self.run, self.corpus, self.device, self.progress = recipe, run, corpus, device, progress
        self.model, self.attending = model, recipe.under_attention(model)
        split = corpus.split("validation")
        self.validation = [split.batch(rows).to(device) for rows in split.by_length(cells=EVALUATED_CELLS)]
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)  # since the last line of the log
        self.loss_count = 0
        self.logged = -1  # the step of the last line of the log
        if not recipe.fits_itself:
            self._check_trainable()
            self.batches = training_batches(corpus, seed=recipe.seed, size=recipe.train_options.batch)
            self.optimiser = self._make_optimiser()

    def _check_trainable(self) -> None:
        """Say what a model lacks before a run is begun."""
        name, attention = self.recipe.model, self.recipe.attention
        missing = capabilities.missing(self.model, Trains)
        if missing:
            raise ContractError(f"model {name!r} has neither {missing[0]} nor fit, one of which training needs")
        if attention == "frozen-beta" and not supports(self.model, HasAttentionParameters):
            raise ContractError(f"model {name!r} has no attention_parameters(): frozen-beta must know which learn")
        for method in ("loss", "evaluate") if attention == "uniform" else ():
            if "attend" not in inspect.signature(getattr(self.model, method)).parameters:
                raise ContractError(f"{method} of model {name!r} takes no attend=: uniform attention needs it")

    # models that train themselves

    def fit(self) -> None:
        """Let the model train itself; it calls back with each step worth keeping."""
        last = -1

        def save(step: int) -> None:
            nonlocal last
            self._evaluate_and_keep(step, keep=True)
            last = step

        self.run.cut_log(-1)
        session = self.run.begin_session(0)
        with self._shown(1):
            self.model.fit(self.corpus, save)
            if last < 0:
                save(0)
        self.run.save_latest(last, {"step": torch.tensor(last)}, {"target": last})
        session.save(last)

    # gradient descent

    def descend(self, target: int) -> None:
        """Gradient steps from wherever the run is to `target`."""
        start = self._restore()
        session = self.run.begin_session(start)
        options, epoch = self.recipe.train_options, self.recipe.epoch(self.corpus)
        named = self.recipe.registry.schedules()
        keep = options.kept(target, epoch=epoch, named=named)
        look = options.evaluated(target, epoch=epoch, named=named)
        with self._shown(target, start), stop_when_asked() as asked:
            saved = time.monotonic()
            for step in range(start, target + 1):
                if step in look:
                    self._evaluate_and_keep(step, keep=step in keep)
                stop = asked()
                if step in keep or step == target or stop or time.monotonic() - saved > SECONDS_BETWEEN_SAVES:
                    self._save(step, target)
                    session.save(step)
                    saved = time.monotonic()
                if step == target:
                    break
                if stop:
                    raise Interrupted(f"stopped at step {step} of {target}, all saved", hint="resume=True")
                self._update(self.batches(step).to(self.device))
                self.progress.advance(step + 1, self._mean_loss)

    def _update(self, batch: Batch) -> None:
        _set_training(self.model, True)
        for parameter in self.model.parameters():  # all of them: with frozen beta the optimiser has only some
            parameter.grad = None
        loss = self.attending.loss(batch)
        loss.backward()
        self.optimiser.step()
        self.loss_sum += loss.detach()
        self.loss_count += 1

    def _make_optimiser(self) -> torch.optim.Optimizer:
        learning = list(self.model.parameters())
        if self.recipe.attention == "frozen-beta":
            with _own_random_state(self.device):
                batch = self.batches(0).to(self.device)
                learning = freeze_all_but(self.model, self.model.attention_parameters(), batch)
        return self.model.optimiser(learning, lr=self.recipe.train_options.lr)  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def _shown(self, total: int, done: int = 0) -> Iterator[None]:
        """Progress that ends however the job ends."""
        self.progress.begin(self.run.name, total, done)
        try:
            yield
        finally:
            self.progress.end()

    def _evaluate_and_keep(self, step: int, *, keep: bool) -> None:
        """A line in the log, and a checkpoint if asked for; a resumed run may have either already."""
        new = step > self.logged
        record = {"step": step, **self._train_loss(step), **evaluate(self.attending, self.validation)} if new else {}
        if math.isnan(record.get("loss", 0.0)):
            raise _diverged(step, math.nan)
        if keep and (new or not self.run.checkpoint(step).exists()):
            self.run.save_checkpoint(step, self.model.state())
        if new:
            self.run.append_log(record)
            self.logged = step
            self.progress.evaluated(record)

    def _mean_loss(self) -> float:
        return float(self.loss_sum) / max(1, self.loss_count)

    def _train_loss(self, step: int) -> dict[str, float]:
        """The mean training loss since the last line."""
        if not self.loss_count:
            return {}
        mean = self._mean_loss()
        if not math.isfinite(mean):
            raise _diverged(step, mean)
        self.loss_sum.zero_()
        self.loss_count = 0
        return {"train_loss": mean}

    # resuming

    def _save(self, step: int, target: int) -> None:
        """Everything that the next step depends on: weights, optimiser, random state, running loss."""
        if not math.isfinite(self._mean_loss()):
            raise _diverged(step, self._mean_loss())
        tensors = {f"model.{name}": value for name, value in self.model.state().items()}
        for index, slots in self.optimiser.state_dict()["state"].items():
            there = {slot: value for slot, value in slots.items() if value is not None}
            tensors |= {f"optimiser.{index}.{slot}": torch.as_tensor(value) for slot, value in there.items()}
        tensors["random.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        tensors["loss_sum"] = self.loss_sum
        self.run.save_latest(step, tensors, {"target": target, "loss_count": self.loss_count})

    def _restore(self) -> int:
        """Put everything back as it was at the last save; returns the step to go on from."""
        found = self.run.load_latest()
        if found is None:
            self.run.cut_log(-1)
            return 0
        tensors, meta, damaged = found
        for sentence in damaged:
            self.progress.say(f"{sentence}; going on from the state before it, step {meta['step']}")
        self.model.load_state({n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")})
        blank = self.optimiser.state_dict()
        self.optimiser.load_state_dict({**blank, "state": _optimiser_state(tensors)})
        torch.set_rng_state(tensors["random.cpu"])
        if self.device.type == "cuda" and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)
        self.loss_sum.copy_(tensors["loss_sum"])
        self.loss_count = int(meta["loss_count"])
        self.run.cut_log(int(meta["step"]))
        self.logged = max((record["step"] for record in self.run.log()), default=-1)
        return int(meta["step"])


def freeze_all_but(model: Trains, learning: Iterable[torch.nn.Parameter], batch: Batch) -> list[torch.nn.Parameter]:
    """Let only `learning` learn: the others need no gradients, unless the model asks for them, as a hook does."""
    chosen = list(learning)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for parameter in chosen:
        parameter.requires_grad_(True)
    buffers = list(model.buffers()) if supports(model, HasBuffers) else []
    kept, was_training = [buffer.clone() for buffer in buffers], in_training(model)
    try:
        _set_training(model, True)
        torch.autograd.backward(model.loss(batch))
    except RuntimeError:  # torch refuses a hook, or retain_grad, on what needs no gradient
        for parameter in model.parameters():
            parameter.requires_grad_(True)
    finally:
        _set_training(model, was_training)
        for buffer, before in zip(buffers, kept, strict=True):
            buffer.data.copy_(before)
        for parameter in model.parameters():
            parameter.grad = None
    return chosen


@torch.no_grad()
def evaluate(model: Evaluates, batches: list[Batch]) -> dict[str, float]:
    """Accuracy, mean -log p and perplexity over all outputs of `batches`; dropout off."""
    _set_training(model, False)
    sums = [torch.stack([torch.as_tensor(value).double() for value in model.evaluate(batch)]) for batch in batches]
    correct, total, nll = torch.stack(sums).sum(0).tolist()
    loss = nll / total
    return {"accuracy": correct / total, "loss": loss, "perplexity": math.exp(min(loss, 700.0))}


def _optimiser_state(tensors: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimiser."):
            _, index, slot = name.split(".", 2)
            state.setdefault(int(index), {})[slot] = tensor.clone()  # into memory of its own, aligned as torch likes it
    return state


def _check_same(run: Run, recipe: Recipe, corpus: Corpus) -> None:
    """A run may go on only with what it began with."""
    record, mine = run.record, recipe.record(corpus, None)
    pairs = [(what, getattr(record, what), getattr(mine, what)) for what in ("task", "model", "attention", "seed")]
    for space, values in mine.options.items():
        then = record.options.get(space, {})
        pairs += [(f"{space}.{key}", then[key], value) for key, value in values.items() if key in then]
    for what, theirs, ours in pairs:
        if theirs != ours and what not in (f"train.{key}" for key in LENGTH):
            raise RunError(
                f"run {run.name} has another {what} ({theirs}, not {ours}): use another name, or remove it first",
                hint="name",
            )
    if record.corpus != corpus.fingerprints:
        raise CorpusError(
            f"run {run.name} was trained on another corpus than {recipe.task!r} gives now: use another name",
            hint="name",
        )


def _diverged(step: int, loss: float) -> RunError:
    return RunError(f"training diverged by step {step} (loss {loss}): lower the learning rate with -o lr=")


def _set_training(model: object, on: bool) -> None:
    if supports(model, HasTrainMode):
        model.train(on)


@contextlib.contextmanager
def _own_random_state(device: torch.device) -> Iterator[None]:
    """Leave the caller's random numbers as they were."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield
