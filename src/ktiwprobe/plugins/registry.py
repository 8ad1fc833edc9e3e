"""Which tasks, models, probes and other registered things there are, and who brought them.

The loader is ours, around pluggy: a plugin that fails is reported by name, distribution and cause, the rest goes on.
Nothing registered is imported before it is asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Literal, overload

import pluggy

from ktiwprobe.errors import PluginError, UnknownNameError, UsageError, suggest
from ktiwprobe.plugins import hookspecs
from ktiwprobe.plugins.quantities import GOLD, Quantity, Role, quantity_of
from ktiwprobe.plugins.run_kinds import RunKind

if TYPE_CHECKING:
    from ktiwprobe.plugins.protocols import Experiment, Metric, Model, Probe, Task

KINDS = (
    "tasks",
    "models",
    "probes",
    "metrics",
    "experiments",
    "run-kinds",
    "schedules",
    "engines",
    "commands",
)
HAT = "hat"  # the suffix that means another seed, whatever is registered
HOME = "ktiwprobe"  # the distribution whose plugins come first


@dataclass(frozen=True, slots=True)
class Owner:
    """A plugin and the distribution it came in."""

    plugin: str
    distribution: str = "unknown"
    version: str = "?"

    def __str__(self) -> str:
        return f"plugin {self.plugin!r} ({self.distribution} {self.version})"


@dataclass(frozen=True, slots=True)
class Entry:
    """A registered name."""

    kind: str
    name: str
    target: object
    owner: Owner
    summary: str = ""
    default: bool = False
    same_as: str | None = None  # the probe of which this is another name

    def load(self) -> Any:
        """The object behind the name, imported now."""
        if not isinstance(self.target, str):
            return self.target
        module, _, attribute = self.target.partition(":")
        try:
            return getattr(import_module(module), attribute)
        except (Exception, SystemExit) as error:  # a stranger's module may fail in any way; the cause is chained
            raise PluginError(f"{self.what} cannot be imported from {self.target}: {describe(error)}") from error

    def check(self) -> None:
        """Refuse a name that could not stand in a path or a SPEC, and a target that could not be imported."""
        if not isinstance(self.name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.name):
            raise PluginError(f"{self.what} needs another name: letters, digits, '-', '_' and '.' only")
        if isinstance(self.target, str) and not re.fullmatch(r"[\w.]+:\w+", self.target):
            raise PluginError(f"{self.what} has the target {self.target!r}: write 'package.module:attribute'")

    @property
    def what(self) -> str:
        """The entry and its owner, for error messages."""
        return f"{self.kind.removesuffix('s')} {self.name!r} of {self.owner}"


@dataclass(frozen=True, slots=True)
class Failure:
    """A plugin that could not be loaded, and why."""

    owner: Owner
    cause: str

    def __str__(self) -> str:
        return f"{self.owner} was not loaded: {self.cause}"


@dataclass(frozen=True)
class Registry:
    """All names, by kind."""

    owners: dict[str, Owner] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    entries: dict[str, dict[str, Entry]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    skipped: list[str] = field(default_factory=list)  # plugins that KTIWPROBE_SKIP_PLUGINS names

    def entry(self, kind: str, name: str) -> Entry:
        """The entry of that name; an unknown one lists what exists."""
        try:
            return self.entries[kind][name]
        except KeyError:
            raise UnknownNameError(kind.removesuffix("s"), name, self.entries[kind], why=self._skips()) from None

    @overload
    def load(self, kind: Literal["tasks"], name: str) -> type[Task]: ...

    @overload
    def load(self, kind: Literal["models"], name: str) -> type[Model]: ...

    @overload
    def load(self, kind: Literal["probes"], name: str) -> Probe: ...

    @overload
    def load(self, kind: Literal["metrics"], name: str) -> Metric | type: ...

    @overload
    def load(self, kind: Literal["experiments"], name: str) -> type[Experiment]: ...

    @overload
    def load(self, kind: str, name: str) -> Any: ...

    def load(self, kind: str, name: str) -> Any:
        """The object behind a name."""
        return self.entry(kind, name).load()

    def names(self, kind: str) -> list[str]:
        """All names of a kind, sorted."""
        return sorted(self.entries[kind])

    def default(self, kind: str) -> str:
        """The name that is taken where a user gives none."""
        for name, entry in self.entries[kind].items():
            if entry.default:
                return name
        raise UsageError(f"no installed plugin has a default {kind.removesuffix('s')}: name one{self._skips()}")

    def _skips(self) -> str:
        """What an unknown name may be due to."""
        return f" (KTIWPROBE_SKIP_PLUGINS skips {', '.join(self.skipped)})" if self.skipped else ""

    def run_kinds(self) -> dict[str, RunKind]:
        """All run kinds by their suffix, in the order in which plugins registered them."""
        return {name: entry.load() for name, entry in self.entries["run-kinds"].items()}

    def schedules(self) -> dict[str, Callable[[], Iterable[int]]]:
        """The schedules that plugins name: functions that give the steps."""
        return {name: entry.load() for name, entry in self.entries["schedules"].items()}

    def same_probe(self, name: str) -> str:
        """The name under which a probe's signals are kept: of another name the probe's own."""
        return self.entry("probes", name).same_as or name

    def quantity(self, name: str) -> Quantity:
        """What the values of a probe are; of one whose plugin is gone or fails only the name is known."""
        if name == GOLD.symbol:
            return GOLD
        try:
            return quantity_of(self.load("probes", name), name)
        except (PluginError, UnknownNameError):
            return Quantity(name, "values of this probe")

    def probes_of(self, *roles: Role) -> list[str]:
        """The probes that have one of these roles, in the order of the roles, then of registration; each once."""
        names = [name for name, entry in self.entries["probes"].items() if entry.same_as is None]
        return [name for role in roles for name in names if self.quantity(name).role == role]

    def _take(self, owner: Owner, source: object) -> None:
        """Add a plugin's entries, all or none."""
        if owner.plugin in self.owners:
            raise PluginError(f"{self.owners[owner.plugin]} has the same name: one of the two must choose another")
        if isinstance(source, PluginError):
            raise source
        entries = _entries_of(source.load() if isinstance(source, EntryPoint) else source, owner)
        taken: dict[tuple[str, str], Entry] = {(e.kind, e.name): e for k in KINDS for e in self.entries[k].values()}
        for entry in entries:
            entry.check()
            other = taken.setdefault((entry.kind, entry.name), entry)
            if other is not entry:
                name = entry.what.partition(" of ")[0]
                raise PluginError(f"{name} is already taken by {other.owner}: one of the two must choose another name")
        _check_suffixes(taken.values())
        for entry in entries:
            self.entries[entry.kind][entry.name] = entry
        self.owners[owner.plugin] = owner


def _check_suffixes(entries: Iterable[Entry]) -> None:
    """Refuse a run kind that with a probe's name would spell another probe's, and the one suffix that is taken."""
    by_kind = {kind: [entry for entry in entries if entry.kind == kind] for kind in ("probes", "run-kinds")}
    probes = {entry.name: entry for entry in by_kind["probes"]}
    for kind in by_kind["run-kinds"]:
        if kind.name == HAT:
            raise PluginError(f"{kind.what} cannot be called {HAT!r}: as a suffix it means another seed")
        if not isinstance(kind.load(), RunKind):
            raise PluginError(f"{kind.what} is {type(kind.load()).__name__}: register a ktiwprobe.RunKind")
        for name in probes:
            if other := probes.get(f"{name}-{kind.name}"):
                raise PluginError(
                    f"{kind.what} and {other.what} clash: {other.name!r} would mean both; one must choose another name"
                )


def build_registry(extra: Mapping[str, object] | None = None, *, environ: Mapping[str, str] = os.environ) -> Registry:
    """Load every plugin that is installed, and the modules in `extra` by name.

    KTIWPROBE_LOAD_PLUGINS, a comma-separated list, loads only the built-in plugins and those; KTIWPROBE_SKIP_PLUGINS
    leaves out those it lists, built-in ones too; KTIWPROBE_STRICT_PLUGINS=1 makes a failing plugin fatal.
    """
    registry = Registry(skipped=sorted(_listed(environ, "KTIWPROBE_SKIP_PLUGINS")))
    for owner, source in _sources(extra or {}, environ):
        try:
            registry._take(owner, source)
        except (Exception, SystemExit) as error:  # whatever a stranger's module does on import, the others must work
            failure = Failure(owner, describe(error))
            if environ.get("KTIWPROBE_STRICT_PLUGINS") == "1":
                raise PluginError(str(failure)) from error
            registry.failures.append(failure)
    return registry


def describe(error: BaseException) -> str:
    """An exception in one line; our own speak for themselves."""
    text = " ".join(str(error).split())
    return text if isinstance(error, PluginError) else f"{type(error).__name__}: {text}"


def _sources(extra: Mapping[str, object], environ: Mapping[str, str]) -> Iterator[tuple[Owner, object]]:
    """Who to load and from where, built-ins first, then by name; an error stands for one that is not installed."""
    found = sorted(
        ((_owner_of(point), point) for point in entry_points(group=hookspecs.PROJECT)),
        key=lambda pair: (pair[0].distribution != HOME, pair[0].plugin),
    )
    names = {owner.plugin for owner, _ in found}
    for variable in ("KTIWPROBE_LOAD_PLUGINS", "KTIWPROBE_SKIP_PLUGINS"):
        why = f"{variable} names it, but it is unknown"
        for name in sorted(_listed(environ, variable) - names):
            yield Owner(name), PluginError(why + suggest(name, names))
    wanted, skipped = (_listed(environ, f"KTIWPROBE_{what}_PLUGINS") for what in ("LOAD", "SKIP"))
    if "KTIWPROBE_LOAD_PLUGINS" in environ:
        found = [pair for pair in found if pair[0].distribution == HOME or pair[0].plugin in wanted]
    yield from (pair for pair in found if pair[0].plugin not in skipped)
    yield from ((Owner(name, "in memory", "-"), module) for name, module in extra.items())


def _listed(environ: Mapping[str, str], variable: str) -> set[str]:
    return {name.strip() for name in environ.get(variable, "").split(",")} - {""}


def has_third_party(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether `build_registry` would load a plugin of another distribution; imports none."""
    return any(owner.distribution != HOME for owner, _ in _sources({}, environ))


def built_in_commands() -> dict[str, Entry]:
    """The commands that the core plugin registers; no other plugin is imported for them."""
    from ktiwprobe.plugins import builtin

    return {entry.name: entry for entry in _entries_of(builtin, Owner("core", HOME)) if entry.kind == "commands"}


def _owner_of(point: EntryPoint) -> Owner:
    """A distribution whose metadata is broken has no name or version."""
    dist = point.dist
    return Owner(point.name, (dist and dist.name) or "unknown", (dist and dist.version) or "?")


def _entries_of(plugin: object, owner: Owner) -> list[Entry]:
    """What one plugin registers; a manager for each, so that a broken one cannot be blamed on the next."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, owner.plugin)
    manager.check_pending()
    if not manager.get_hookcallers(plugin):
        raise PluginError("it has no hooks: mark its register_... functions with @ktiwprobe.hookimpl")
    entries: list[Entry] = []
    for kind in KINDS:

        def register(name: str, target: object, *, kind: str = kind, **about: Any) -> None:
            entries.append(Entry(kind, name, target, owner, **about))

        getattr(manager.hook, f"register_{kind.replace('-', '_')}")(register=register)
    return entries
