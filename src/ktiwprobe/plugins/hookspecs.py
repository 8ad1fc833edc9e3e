"""The hooks through which everything comes in; built-in plugins use the same ones.

A plugin module marks functions of these names with `@ktiwprobe.hookimpl`. Each receives `register`, to be called as
`register("name", "package.module:Class", summary="one line for `ktiwprobe ls`")`. The target is imported only when it
is used, so that listing what exists does not import torch.
"""

from typing import Protocol

import pluggy

PROJECT = "ktiwprobe"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class Register(Protocol):
    """What a hook is given to claim a name."""

    def __call__(
        self, name: str, target: object, *, summary: str = "", default: bool = False, same_as: str | None = None
    ) -> None:
        """Claim `name` for `target`: "module:attribute", imported when first used, or the object itself.

        `default` makes it what is taken where a user names none. `same_as` makes it another name of a probe.
        """
        ...


@hookspec
def register_tasks(register: Register) -> None:
    """Register tasks: classes with `Options` and `load(options) -> Corpus`."""


@hookspec
def register_models(register: Register) -> None:
    """Register models: classes with `Options` and `build(corpus, options) -> Model`."""


@hookspec
def register_probes(register: Register) -> None:
    """Register probes: functions (model, batch) -> (B, T, L) or (B, S, T, L)."""


@hookspec
def register_metrics(register: Register) -> None:
    """Register metrics: functions (u, v) -> (N,) or (N, 2), or dataclasses of options that are such functions."""


@hookspec
def register_experiments(register: Register) -> None:
    """Register experiments: classes with `run(context) -> Result`."""


@hookspec
def register_run_kinds(register: Register) -> None:
    """Register run kinds, the suffixes of SPECs: a RunKind each, such as `uf` for runs under uniform attention."""


@hookspec
def register_schedules(register: Register) -> None:
    """Register schedules of checkpoints: functions () -> the steps in ascending order, perhaps without end."""


@hookspec
def register_engines(register: Register) -> None:
    """Register engines: classes with `Options`, made as `Engine(options)`, that run work for a sweep."""


@hookspec
def register_commands(register: Register) -> None:
    """Register commands of `ktiwprobe`: each a `click.Command`; the summary is its line in `ktiwprobe --help`."""
