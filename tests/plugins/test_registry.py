"""The registry: every plugin through one door, a broken one named and the rest at work."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ktiwprobe import hookimpl
from ktiwprobe.errors import PluginError, UnknownNameError, UsageError
from ktiwprobe.plugins import hookspecs
from ktiwprobe.plugins.registry import KINDS, Registry, build_registry
from ktiwprobe.plugins.run_kinds import RunKind

ROOT = Path(__file__).parents[2]
NOTHING_ELSE = {"KTIWPROBE_LOAD_PLUGINS": ""}


def plugin(source: str, name: str = "stranger") -> ModuleType:
    """A module as an author would write it."""
    module = ModuleType(name)
    exec("from ktiwprobe import hookimpl\n" + textwrap.dedent(source), module.__dict__)
    return module


def claims(kind: str, *names: str, target: object = len) -> SimpleNamespace:
    """A plugin that registers names of one kind."""
    target = RunKind("another kind") if kind == "run-kinds" and target is len else target

    def claim(register: Any) -> None:
        for name in names:
            register(name, target)

    claim.__name__ = f"register_{kind.replace('-', '_')}"
    return SimpleNamespace(**{claim.__name__: hookimpl(claim)})


def install(folder: Path, distribution: str, module: str, source: str, *, version: str = "1.2") -> None:
    """Put a distribution with one plugin into `folder`, as pip would."""
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[ktiwprobe]\n{module.removeprefix('plugin_')} = {module}\n")
    (folder / f"{module}.py").write_text("from ktiwprobe import hookimpl\n" + textwrap.dedent(source))


def in_a_process(code: str, folder: Path, **environ: str) -> Any:
    """What `code` prints as JSON, in a new process that has `folder` installed."""
    env = {**os.environ, "PYTHONPATH": str(folder), **environ}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


REPORT = """
import json
from ktiwprobe import build_registry
r = build_registry()
print(json.dumps({"models": r.names("models"), "owners": {n: str(o) for n, o in r.owners.items()},
                  "failures": [str(f) for f in r.failures]}))
"""
GOOD = """
@hookimpl
def register_models(register):
    register("good-model", "not_there_yet:Model", summary="fine")
"""


# the hooks


@pytest.mark.parametrize("kind", KINDS)
def test_every_hook_registers_its_kind(kind: str) -> None:
    """Each of the hooks brings names of its kind in, with owner and target."""
    registry = build_registry({"mine": claims(kind, "a-thing")}, environ=NOTHING_ELSE)
    assert "a-thing" in registry.names(kind)
    assert registry.load(kind, "a-thing") is (registry.run_kinds()["a-thing"] if kind == "run-kinds" else len)
    assert str(registry.entry(kind, "a-thing").owner) == "plugin 'mine' (in memory -)"
    assert not registry.failures


def test_every_hook_has_a_test_and_a_line_of_documentation() -> None:
    """A hook that is added must be added to KINDS, and so to the test above, and to docs/plugins.md."""
    hooks = {name for name in vars(hookspecs) if name.startswith("register_")}
    assert hooks == {f"register_{kind.replace('-', '_')}" for kind in KINDS}
    text = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    assert not [hook for hook in sorted(hooks) if hook not in text]
    assert not [hook for hook in sorted(hooks) if not getattr(hookspecs, hook).__doc__]


def test_built_in_plugins_come_through_the_same_door() -> None:
    """The core's probes and metrics and the paper's models and tasks are there, each with a summary."""
    registry = build_registry(environ=NOTHING_ELSE)
    assert {"alpha", "beta", "gamma", "delta"} <= set(registry.names("probes"))
    assert {"agreement", "kendall", "spearman", "top-k", "aer"} <= set(registry.names("metrics"))
    assert {"lstm-seq2seq", "lstm-classifier"} <= set(registry.names("models"))
    assert {"toy-translation", "toy-sentiment"} <= set(registry.names("tasks"))
    assert all(entry.summary for kind in KINDS for entry in registry.entries[kind].values())
    assert not registry.failures


@pytest.mark.parametrize("kind", KINDS)
def test_everything_registered_can_be_loaded(kind: str) -> None:
    """Every lazy target of the built-in plugins exists."""
    registry = build_registry(environ=NOTHING_ELSE)
    things = [registry.load(kind, name) for name in registry.names(kind)]
    assert all(isinstance(thing, RunKind) if kind == "run-kinds" else callable(thing) for thing in things)


def test_building_a_registry_imports_nothing_heavy(tmp_path: Path) -> None:
    """Listing what exists costs neither torch nor scipy nor pandas, and no target of a plugin."""
    install(tmp_path, "ktiwprobe-good", "plugin_good", GOOD)
    heavy = ["torch", "transformers", "scipy", "pandas", "numpy", "matplotlib", "click", "not_there_yet"]
    code = "import json, sys\nfrom ktiwprobe import build_registry\nassert 'good' in build_registry().owners\n"
    code += f"print(json.dumps(sorted(set({heavy}) & set(sys.modules))))"
    assert in_a_process(code, tmp_path) == []


# names


def test_an_unknown_name_suggests_the_nearest() -> None:
    """A mistyped name is answered with the nearest one and the whole list."""
    with pytest.raises(UnknownNameError, match=r"unknown model 'lstm-seq2sec'; did you mean 'lstm-seq2seq'\? known: "):
        build_registry(environ=NOTHING_ELSE).entry("models", "lstm-seq2sec")


def test_an_unknown_name_where_there_are_none() -> None:
    """An empty kind says so."""
    with pytest.raises(UnknownNameError, match="unknown thing 'x': there are none"):
        raise UnknownNameError("thing", "x", [])


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a:b", "a@1", "a[0]", "-a", "../a", 3, None])
def test_a_name_that_cannot_stand_in_a_path_or_spec_is_refused(name: Any) -> None:
    """A run folder is named after it and a SPEC is parsed around it, so some characters are not for names."""
    registry = build_registry({"odd": claims("models", name)}, environ=NOTHING_ELSE)
    assert [failure.owner.plugin for failure in registry.failures] == ["odd"]
    assert "needs another name" in registry.failures[0].cause


def test_a_target_that_is_not_a_path_is_refused_at_once() -> None:
    """A text target must be module:attribute."""
    registry = build_registry({"odd": claims("models", "x", target="module.Class")}, environ=NOTHING_ELSE)
    assert "write 'package.module:attribute'" in registry.failures[0].cause


@pytest.mark.parametrize(
    ("target", "cause"),
    [
        ("no_such_module_at_all:X", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("json:Nothing", "AttributeError"),
        ("plugin_exits:X", "SystemExit: 3"),
        ("plugin_breaks:X", "ZeroDivisionError"),
    ],
)
def test_a_target_that_cannot_be_imported_is_a_sentence(
    target: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails when first used names the model, the plugin, the target and the cause, whatever the failure."""
    (tmp_path / "plugin_exits.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "plugin_breaks.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = build_registry({"mine": claims("models", "x", target=target)}, environ=NOTHING_ELSE)
    with pytest.raises(PluginError) as caught:
        registry.load("models", "x")
    assert f"model 'x' of plugin 'mine' (in memory -) cannot be imported from {target}: {cause}" in str(caught.value)


# plugins that fail

BROKEN = {
    "raises": ("@hookimpl\ndef register_models(register):\n    raise OSError('no\\nway')", "OSError: no way"),
    "wrong_hook": ("@hookimpl\ndef register_model(register): pass", "unknown hook 'register_model'"),
    "wrong_argument": ("@hookimpl\ndef register_models(registry): pass", "{'registry'}"),
    "no_name": ("@hookimpl\ndef register_models(register): register()", "TypeError"),
    "unmarked": ("def register_models(register): pass", "mark its register_... functions with @ktiwprobe.hookimpl"),
    "both": (
        "@hookimpl\ndef register_a(register): pass\n@hookimpl\ndef register_models(registry): pass",
        "PluginValidationError",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_named_and_the_rest_goes_on(name: str) -> None:
    """The one that is broken is blamed, in one line, and nobody else."""
    source, cause = BROKEN[name]
    extra = {"before": claims("tasks", "t"), name: plugin(source), "after": claims("models", "m")}
    registry = build_registry(extra, environ=NOTHING_ELSE)
    assert [failure.owner.plugin for failure in registry.failures] == [name]
    text = str(registry.failures[0])
    assert text.startswith(f"plugin '{name}' (in memory -) was not loaded: ")
    assert cause in text
    assert "\n" not in text
    assert {"before", "after"} <= set(registry.owners)
    assert name not in registry.owners
    assert "m" in registry.names("models")
    assert "t" in registry.names("tasks")


@pytest.mark.parametrize("name", BROKEN)
def test_strict_mode_makes_a_broken_plugin_fatal(name: str) -> None:
    """KTIWPROBE_STRICT_PLUGINS=1 raises the same sentence."""
    source, cause = BROKEN[name]
    with pytest.raises(PluginError) as caught:
        build_registry({name: plugin(source)}, environ={**NOTHING_ELSE, "KTIWPROBE_STRICT_PLUGINS": "1"})
    assert cause in str(caught.value)


def test_a_plugin_comes_in_whole_or_not_at_all() -> None:
    """A plugin that takes an existing name loses its other names too, and the sentence names both owners."""
    extra = {"first": claims("models", "m"), "second": claims("models", "other", "m")}
    registry = build_registry(extra, environ=NOTHING_ELSE)
    assert "other" not in registry.names("models")
    assert registry.entry("models", "m").owner.plugin == "first"
    text = str(registry.failures[0])
    assert "plugin 'second' (in memory -) was not loaded: model 'm' is already taken by plugin 'first'" in text


def test_a_plugin_that_fails_late_leaves_nothing_behind() -> None:
    """Names registered before the failing hook are not kept."""
    source = """
    @hookimpl
    def register_tasks(register): register("orphan", "a:B")
    @hookimpl
    def register_models(register): raise ValueError
    """
    registry = build_registry({"half": plugin(source)}, environ=NOTHING_ELSE)
    assert "orphan" not in registry.names("tasks")


def test_a_name_taken_twice_by_one_plugin_is_an_error() -> None:
    """A plugin may not contradict itself."""
    registry = build_registry({"twice": claims("models", "m", "m")}, environ=NOTHING_ELSE)
    assert "model 'm' is already taken by plugin 'twice'" in str(registry.failures[0])


def test_one_name_may_serve_several_kinds() -> None:
    """Kinds are separate spaces of names."""
    extra = {"a": claims("models", "same"), "b": claims("tasks", "same")}
    assert not build_registry(extra, environ=NOTHING_ELSE).failures


def test_built_in_names_cannot_be_taken() -> None:
    """A stranger who claims a built-in name is refused, the built-in stays."""
    registry = build_registry({"thief": claims("probes", "alpha")}, environ=NOTHING_ELSE)
    assert registry.entry("probes", "alpha").owner.distribution == "ktiwprobe"
    assert "already taken by plugin 'core' (ktiwprobe " in str(registry.failures[0])


def test_two_plugins_of_one_name_are_told_apart() -> None:
    """A second plugin of the same name is refused with both owners."""
    registry = build_registry({"core": claims("models", "m")}, environ=NOTHING_ELSE)
    text = str(registry.failures[0])
    assert "plugin 'core' (in memory -) was not loaded: plugin 'core' (ktiwprobe " in text


def test_a_keyboard_interrupt_is_not_a_broken_plugin() -> None:
    """Ctrl-C while plugins load stops the program."""
    with pytest.raises(KeyboardInterrupt):
        build_registry({"slow": plugin("@hookimpl\ndef register_models(register): raise KeyboardInterrupt")})


# distributions


def test_installed_plugins_are_found_and_failing_ones_named(tmp_path: Path) -> None:
    """Entry points of real distributions: good ones load, each bad one is named with its distribution and cause."""
    install(tmp_path, "ktiwprobe-good", "plugin_good", GOOD)
    install(tmp_path, "bad-import", "plugin_bad", "import nothing_of_this_name")
    install(tmp_path, "bad-exit", "plugin_exit", "raise SystemExit(0)")
    install(tmp_path, "bad-thief", "plugin_thief", GOOD)
    found = in_a_process(REPORT, tmp_path)
    assert "good-model" in found["models"]
    assert "lstm-seq2seq" in found["models"]
    assert found["owners"]["good"] == "plugin 'good' (ktiwprobe-good 1.2)"
    assert [text.partition(" was not loaded: ")[::2] for text in found["failures"]] == [
        ("plugin 'bad' (bad-import 1.2)", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("plugin 'exit' (bad-exit 1.2)", "SystemExit: 0"),
        (
            "plugin 'thief' (bad-thief 1.2)",
            "model 'good-model' is already taken by plugin 'good' (ktiwprobe-good 1.2): "
            "one of the two must choose another name",
        ),
    ]


def test_the_environment_chooses_plugins(tmp_path: Path) -> None:
    """KTIWPROBE_LOAD_PLUGINS loads the built-in ones and those named; a name that nobody has is reported."""
    install(tmp_path, "ktiwprobe-good", "plugin_good", GOOD)
    install(tmp_path, "bad-import", "plugin_bad", "import nothing_of_this_name")
    chosen = in_a_process(REPORT, tmp_path, KTIWPROBE_LOAD_PLUGINS="good")
    assert (set(chosen["owners"]), chosen["failures"]) == ({"core", "paper", "transformers", "good"}, [])
    none = in_a_process(REPORT, tmp_path, KTIWPROBE_LOAD_PLUGINS="")
    assert (set(none["owners"]), none["failures"]) == ({"core", "paper", "transformers"}, [])
    wrong = in_a_process(REPORT, tmp_path, KTIWPROBE_LOAD_PLUGINS=" good , godo")
    assert set(wrong["owners"]) == {"core", "paper", "transformers", "good"}
    assert "'godo'" in wrong["failures"][0]
    assert "did you mean 'good'?" in wrong["failures"][0]


def test_any_plugin_can_be_skipped(tmp_path: Path) -> None:
    """KTIWPROBE_SKIP_PLUGINS leaves out built-in plugins and others; a name that nobody has is reported."""
    install(tmp_path, "ktiwprobe-good", "plugin_good", GOOD)
    skipped = in_a_process(REPORT, tmp_path, KTIWPROBE_SKIP_PLUGINS="paper, good")
    assert (set(skipped["owners"]), skipped["failures"]) == ({"core", "transformers"}, [])
    assert "lstm-seq2seq" not in skipped["models"]
    both = in_a_process(REPORT, tmp_path, KTIWPROBE_LOAD_PLUGINS="good", KTIWPROBE_SKIP_PLUGINS="transformers,papre")
    assert set(both["owners"]) == {"core", "paper", "good"}
    assert "KTIWPROBE_SKIP_PLUGINS names it, but it is unknown; did you mean 'paper'?" in both["failures"][0]


def test_a_name_of_a_skipped_plugin_is_one_clear_sentence() -> None:
    """Whoever meets it, as a default or by name, reads which plugins are left out."""
    registry = build_registry(environ={**NOTHING_ELSE, "KTIWPROBE_SKIP_PLUGINS": "paper"})
    sentence = r"unknown task 'toy-translation'; known: plain-text \(KTIWPROBE_SKIP_PLUGINS skips paper\)"
    with pytest.raises(UnknownNameError, match=sentence):
        registry.load("tasks", "toy-translation")


def test_a_distribution_without_metadata_does_not_stop_the_rest(tmp_path: Path) -> None:
    """A half-removed distribution still has an owner that can be named."""
    install(tmp_path, "ktiwprobe-good", "plugin_good", GOOD)
    (tmp_path / "ktiwprobe_good-1.2.dist-info" / "METADATA").unlink()
    code = "import warnings; warnings.simplefilter('ignore')\n" + REPORT
    assert in_a_process(code, tmp_path)["owners"]["good"] == "plugin 'good' (unknown ?)"


# run kinds


def test_a_run_kind_may_not_spell_a_probe() -> None:
    """`alpha` with the suffix `-opt` would be the probe alpha-opt; whichever of the two comes later is refused."""
    kind = claims("run-kinds", "opt")
    assert "'alpha-opt' would mean both" in build_registry({"k": kind}, environ=NOTHING_ELSE).failures[0].cause
    extra = {"k": claims("run-kinds", "wide"), "p": claims("probes", "beta-wide")}
    (failure,) = build_registry(extra, environ=NOTHING_ELSE).failures
    assert failure.owner.plugin == "p"
    assert "run-kind 'wide' of plugin 'k'" in failure.cause


def test_hat_and_things_that_are_no_run_kind_are_refused() -> None:
    """-hat means another seed; a run kind is a RunKind."""
    assert "it means another seed" in build_registry({"k": claims("run-kinds", "hat")}).failures[0].cause
    odd = claims("run-kinds", "odd", target=print)
    assert "register a ktiwprobe.RunKind" in build_registry({"k": odd}).failures[0].cause


def test_without_a_default_there_is_a_sentence() -> None:
    """The default task is one that a plugin declares; without its plugin one has to be named."""
    assert build_registry(environ=NOTHING_ELSE).default("tasks") == "toy-translation"
    with pytest.raises(UsageError, match="no installed plugin has a default task: name one"):
        Registry().default("tasks")
