"""SPECs: how they are read, which runs and steps they mean, and `agree` on real runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny
from ktiwprobe import Corpus, Run, Split, agree, extract, hookimpl, train
from ktiwprobe.compare import metrics
from ktiwprobe.compare.agreement import add_up, measure
from ktiwprobe.compare.finder import Finder
from ktiwprobe.compare.specs import Spec, read_spec
from ktiwprobe.data import SPECIALS
from ktiwprobe.errors import CorpusError, RunError, SpecError, UnknownNameError, UsageError
from ktiwprobe.plugins.registry import Registry, build_registry
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.runs.listing import find_run

STAND_INS = ("bow-proxy", "ibm1", "logistic-regression")
A = metrics.Agreement()


# reading


@pytest.fixture(scope="module")
def probes() -> Registry:
    """A registry with two further probes, one of which looks like another with a suffix."""

    class Further:
        @hookimpl
        def register_probes(self, register: Any) -> None:
            for name in ("beta-hat", "my-own-probe"):
                register(name, len)

    return build_registry({"further": Further()})


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("alpha", Spec("alpha", "alpha")),
        ("alpha@best", Spec("alpha@best", "alpha", step="best")),
        ("delta@100", Spec("delta@100", "delta", step="100")),
        ("alpha-hat", Spec("alpha-hat", "alpha", pick="hat")),
        ("beta-uf@last", Spec("beta-uf@last", "beta", pick="uf", step="last")),
        ("alpha-fr", Spec("alpha-fr", "alpha", pick="fr")),
        ("beta-px", Spec("beta-px", "beta", pick="px")),
        ("gamma-ibm", Spec("gamma-ibm", "gamma", pick="ibm")),
        ("beta-log", Spec("beta-log", "beta", pick="log")),
        ("alpha[cross:3.h5]@best", Spec("alpha[cross:3.h5]@best", "alpha", site="cross:3.h5", step="best")),
        ("alpha-hat[max]", Spec("alpha-hat[max]", "alpha", pick="hat", site="max")),
        ("run-s0:beta@100", Spec("run-s0:beta@100", "beta", run="run-s0", step="100")),
        ("toy/m+1a-s0:alpha[h1]", Spec("toy/m+1a-s0:alpha[h1]", "alpha", run="toy/m+1a-s0", site="h1")),
        ("odd:name:alpha", Spec("odd:name:alpha", "alpha", run="odd:name")),
        (
            "a@b/c[1]/m:x:alpha[h1]@3",
            Spec("a@b/c[1]/m:x:alpha[h1]@3", "alpha", run="a@b/c[1]/m:x", site="h1", step="3"),
        ),
        ("a@b:alpha[c:1]", Spec("a@b:alpha[c:1]", "alpha", run="a@b", site="c:1")),
        # the longest probe name wins
        ("alpha-opt", Spec("alpha-opt", "alpha-opt")),
        ("alpha-opt-hat", Spec("alpha-opt-hat", "alpha-opt", pick="hat")),
        ("beta-hat", Spec("beta-hat", "beta-hat")),
        ("beta-hat-hat", Spec("beta-hat-hat", "beta-hat", pick="hat")),
        ("my-own-probe-uf@3", Spec("my-own-probe-uf@3", "my-own-probe", pick="uf", step="3")),
        # not symbols
        ("gold", Spec("gold")),
        ("signals/u.npz", Spec("signals/u.npz", file=Path("signals/u.npz"))),
        ("a@b[c].jsonl", Spec("a@b[c].jsonl", file=Path("a@b[c].jsonl"))),
        ("u.safetensors", Spec("u.safetensors", file=Path("u.safetensors"))),
    ],
)
def test_a_spec_is_read(text: str, meaning: Spec, probes: Registry) -> None:
    """Every form of the contract."""
    assert read_spec(text, probes) == meaning
    assert read_spec(text, probes).gold == (text == "gold")


@pytest.mark.parametrize("text", ["", "@best", "alpha@", "alpha[]", "alpha[a", "alpha@1[a]", "alpha@1@2", "[a]"])
def test_what_is_no_spec_is_told_the_form(text: str, probes: Registry) -> None:
    """The sentence shows what to write."""
    with pytest.raises(SpecError, match=r"write \[RUN:\]SYMBOL\[SITE\]\[@STEP\], a signal file, or gold"):
        read_spec(text, probes)


@pytest.mark.parametrize(
    ("text", "symbol", "near"),
    [("alhpa", "alhpa", "alpha"), ("run:betta-uf", "betta-uf", "beta-uf"), ("alpha-xx", "alpha-xx", "alpha-")],
)
def test_an_unknown_symbol_suggests_the_nearest(text: str, symbol: str, near: str, probes: Registry) -> None:
    """And lists probes and suffixes."""
    with pytest.raises(SpecError, match=f"unknown symbol '{symbol}'.*did you mean '{near}") as error:
        read_spec(text, probes)
    assert "probes: alpha, alpha-opt, beta" in str(error.value)
    assert "suffixes: -hat, -uf, -fr, -px, -ibm, -log" in str(error.value)


def test_a_run_named_twice_is_an_error(probes: Registry) -> None:
    """RUN: and a suffix that picks another one cannot both be."""
    with pytest.raises(SpecError, match="names its run twice: leave out m-s0: or -uf"):
        read_spec("m-s0:beta-uf", probes)


# runs


class TinyMood:
    """A classification task: is there a word from the second half?"""

    training_defaults = tiny.TinyTask.training_defaults

    def load(self, options: Any) -> Corpus:
        rng = np.random.default_rng(1)
        xs = [rng.integers(4, 12, rng.integers(2, 7)).tolist() for _ in range(60)]
        ys = [[int(max(x) > 9)] for x in xs]
        splits = {"train": Split.of(xs[:40], ys[:40]), "validation": Split.of(xs[40:], ys[40:])}
        return Corpus("tiny-mood", "classification", splits, (*SPECIALS, *"abcdefgh"), ("low", "high"))


class Plugin:
    """A classification task, and the names of the paper's stand-ins."""

    @hookimpl
    def register_tasks(self, register: Any) -> None:
        register("tiny-mood", TinyMood)


@pytest.fixture(scope="module")
def registry() -> Registry:
    """The tiny plugin and what the tests here need beside it; the stand-ins are quick ones, which take any task."""
    registry = build_registry(extra={"tiny": tiny, "more": Plugin()})
    for name in STAND_INS:
        registry.entries["models"][name] = replace(registry.entry("models", name), target=tiny.TinyCount)
    return registry


@pytest.fixture(scope="module")
def trained(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seeds, a uniform run, a frozen run and the stand-ins, the stand-ins last; and four seeds that classify."""
    runs = tmp_path_factory.mktemp("group")
    given = {"runs": runs, "registry": registry}
    for seed in range(4):
        train("tiny-model", "tiny-mood", seed=seed, **given)
    for seed in (7, 3, 5):
        train("tiny-model", seed=seed, **given)
    for attention in ("uniform", "frozen-beta"):
        for seed in (2, 1):
            train("tiny-model", attention=attention, seed=seed, **given)
    for name in STAND_INS:
        train(name, "tiny-task", **given)
    return runs


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    """A copy of the runs that a test may change."""
    return Path(shutil.copytree(trained, tmp_path / "runs"))


def make_latest(run: Path) -> None:
    """As if it had been created just now."""
    Run.create(run, replace(Run(run).record, created=None))


Find = Callable[..., Finder]


@pytest.fixture
def find(runs: Path, registry: Registry) -> Find:
    """A finder among the runs."""
    return lambda **given: Finder(runs, registry, **{"task": "tiny-task", **given})


def meant(finder: Finder, text: str) -> tuple[str, str]:
    """Which run and which step a SPEC means."""
    spec = read_spec(text, finder.registry)
    return finder.run_of(spec).path.name, finder.step_of(spec)


def test_defaults_are_the_contracts(find: Find) -> None:
    """A is the lowest seed, B the next: bare A@best; hat B@best, beta-hat B@max; uf, fr @max; stand-ins @best."""
    for text, run, step in (
        ("alpha", "tiny-model-s3", "best"),
        ("delta", "tiny-model-s3", "best"),
        ("beta", "tiny-model-s3", "best"),
        ("gamma", "tiny-model-s3", "best"),
        ("alpha-hat", "tiny-model-s5", "best"),
        ("delta-hat", "tiny-model-s5", "best"),
        ("beta-hat", "tiny-model-s5", "max"),
        ("gamma-hat", "tiny-model-s5", "max"),
        ("alpha-uf", "tiny-model-uniform-s1", "max"),
        ("beta-uf", "tiny-model-uniform-s1", "max"),
        ("alpha-fr", "tiny-model-frozen-beta-s1", "max"),
        ("beta-px", "bow-proxy-s0", "best"),
        ("beta-ibm", "ibm1-s0", "best"),
        ("alpha-log", "logistic-regression-s0", "best"),
        ("tiny-model-s7:beta", "tiny-model-s7", "best"),
        ("tiny-task/tiny-model-uniform-s2:alpha", "tiny-model-uniform-s2", "best"),
        ("beta@10", "tiny-model-s3", "10"),
        ("beta-uf@last", "tiny-model-uniform-s1", "last"),
        ("alpha@max", "tiny-model-s3", "max"),
    ):
        assert meant(find(), text) == (run, step), text


def test_with_one_run_beta_is_its_own(runs: Path, find: Find) -> None:
    """beta is then A@best."""
    for seed in (5, 7):
        shutil.rmtree(runs / "tiny-task" / f"tiny-model-s{seed}")
    assert meant(find(), "beta") == ("tiny-model-s3", "best")
    with pytest.raises(SpecError, match=r"alpha-hat needs a second seed of tiny-model on tiny-task.*--seed 4`"):
        meant(find(), "alpha-hat")


def test_the_group_is_the_latest_runs(runs: Path, find: Find, registry: Registry) -> None:
    """Same task, model and options, any seed and attention; stand-ins never lead it; --task narrows the choice."""
    group = {run.path.name for run in find().group()}
    assert group == {f"tiny-model{kind}" for kind in ("-s3", "-s5", "-s7")} | {
        f"tiny-model-{attention}-s{seed}" for attention in ("uniform", "frozen-beta") for seed in (1, 2)
    }
    assert len(find(task="tiny-mood").group()) == 4
    other = train("tiny-model", seed=9, options={"width": 4}, steps=0, runs=runs, registry=registry)
    make_latest(other.path)
    assert [run.seed for run in find().group()] == [9]
    make_latest(runs / "tiny-mood" / "tiny-model-s2")
    assert len(find(task=None).group()) == 4


def test_a_missing_run_comes_with_the_command_that_trains_it(
    tmp_path: Path, registry: Registry, find: Find, runs: Path
) -> None:
    """The command repeats the options that make the group what it is, and what it trains is then found."""
    options = {"width": 4, "task.variety": 3, "batch": 5}
    given = {"runs": tmp_path / "few", "registry": registry, "steps": 0, "options": options}
    train("tiny-model", **given)
    finder = Finder(tmp_path / "few", registry)
    same = "-o task.variety=3 -o model.width=4 -o train.batch=5"
    for text, command in (
        ("alpha-hat", f"ktiwprobe train tiny-model --task tiny-task --seed 1 {same}`"),
        ("beta-uf", f"ktiwprobe train tiny-model --task tiny-task {same} --attention uniform`"),
        ("alpha-fr", f"ktiwprobe train tiny-model --task tiny-task {same} --attention frozen-beta`"),
        ("beta-px", "ktiwprobe train bow-proxy --task tiny-task -o task.variety=3`"),
    ):
        with pytest.raises(SpecError) as error:
            meant(finder, text)
        assert str(error.value).endswith(command)
    train("tiny-model", **given, attention="uniform")
    assert meant(Finder(tmp_path / "few", registry), "beta-uf")[1] == "max"
    for seed in (3, 5, 7):
        shutil.rmtree(runs / "tiny-task" / f"tiny-model-s{seed}")
    with pytest.raises(SpecError, match="no learned run of tiny-model on tiny-task: train one with `ktiwprobe train"):
        meant(find(), "alpha")


def test_a_uniform_run_may_stand_alone(tmp_path: Path, registry: Registry) -> None:
    """What is asked of it needs no learned run, and xi, which does, is unknown."""
    train("tiny-model", attention="uniform", steps=10, runs=tmp_path, registry=registry)
    found = agree("beta-uf@0", "beta-uf", runs=tmp_path, registry=registry)
    assert found.value == 1.0
    assert found.v.endswith("-uniform-s0:beta@0")
    assert found.xi is found.xi_star is found.performance is None


def test_no_runs_is_one_sentence(tmp_path: Path, runs: Path, registry: Registry) -> None:
    """None at all, or none of the task asked for."""
    with pytest.raises(RunError, match=r"there are no runs in .*: train one"):
        agree("alpha", "beta", runs=tmp_path / "nothing", registry=registry)
    with pytest.raises(SpecError, match=r"no runs of task 'toy' in .*; there are some of tiny-mood, tiny-task"):
        agree("alpha", "beta", task="toy", runs=runs, registry=registry)
    with pytest.raises(UnknownNameError, match="tiny-task/tiny-model-s3"):
        agree("tiny-model-s4:alpha", "beta", runs=runs, registry=registry)
    with pytest.raises(UsageError, match="did you mean 'kendall'"):
        agree("alpha", "beta", "kendal", runs=runs, registry=registry)


def test_a_run_without_checkpoints_has_no_maximum(runs: Path, registry: Registry) -> None:
    """@max of nothing is a sentence too."""
    shutil.rmtree(runs / "tiny-task" / "tiny-model-s5" / "checkpoints")
    with pytest.raises(RunError, match="tiny-model-s5 has no checkpoints"):
        agree("alpha", "beta-hat", task="tiny-task", runs=runs, registry=registry)
    assert agree("alpha", "beta", task="tiny-task", runs=runs, registry=registry).xi is None  # which nobody knows


# agree


def signal_of(runs: Path, registry: Registry, run: str, probe: str, at: int | str = "best", **given: Any) -> Any:
    return extract(find_run(runs, run), probe, at=at, registry=registry, **given)


def test_a_second_seed_does_not_change_what_bare_symbols_mean(runs: Path, registry: Registry) -> None:
    """A(alpha, beta) is of one run at its best step, with three seeds as with one; only xi needs the others."""
    given = {"task": "tiny-task", "runs": runs, "registry": registry}
    found = agree("alpha", "beta", **given)
    step = find_run(runs, "tiny-task/tiny-model-s3").best_step()
    assert (found.u, found.v) == tuple(f"tiny-task/tiny-model-s3:{probe}@{step}" for probe in ("alpha", "beta"))
    assert (found.u_step, found.v_step) == (step, step)
    assert found.chosen == {"u": "best by accuracy", "v": "best by accuracy"}
    for seed in (5, 7):
        shutil.rmtree(runs / "tiny-task" / f"tiny-model-s{seed}")
    alone = agree("alpha", "beta", **given)
    assert (alone.value, alone.ci, alone.u, alone.v) == (found.value, found.ci, found.u, found.v)


@pytest.mark.parametrize(("u", "v"), [("{}:alpha", "beta"), ("alpha", "{}:beta"), ("{}:alpha", "{}:beta")])
def test_a_bare_side_is_the_run_that_the_other_side_names(runs: Path, registry: Registry, u: str, v: str) -> None:
    """Whichever side that is, also outside the latest group; then that run is A: xi and xi* are read from it."""
    name = "tiny-task/tiny-model-s7"
    make_latest(runs / "tiny-mood" / "tiny-model-s0")
    found = agree(u.format(name), v.format(name), runs=runs, registry=registry)
    assert {found.u.partition(":")[0], found.v.partition(":")[0]} == {name}
    curve = curve_by_hand(runs, registry, "tiny-task", ["tiny-model-s3"], "tiny-model-s7")
    star = max(find_run(runs, name).performance().values())
    passing = first_above(found.value, curve)
    assert (found.xi, found.xi_star) == (star if passing is None else passing, star)


def test_another_seed_is_never_the_run_itself(runs: Path, registry: Registry) -> None:
    """Beside a named run, -hat is the next seed, and after the last the first."""
    given = {"task": "tiny-task", "runs": runs, "registry": registry}
    for seed, other in ((3, 5), (5, 7), (7, 3)):
        found = agree(f"tiny-task/tiny-model-s{seed}:alpha", "alpha-hat", **given)
        assert found.v.startswith(f"tiny-task/tiny-model-s{other}:alpha@")
        found = agree("alpha-hat", f"tiny-task/tiny-model-s{seed}:alpha", **given)
        assert found.u.startswith(f"tiny-task/tiny-model-s{other}:alpha@")


def test_a_run_path_may_hold_any_character(trained: Path, registry: Registry, tmp_path: Path) -> None:
    """Also those that a SPEC is written with."""
    here = tmp_path / "a@b" / "runs[1]:x"
    shutil.copytree(trained, here)
    path = here / "tiny-task" / "tiny-model-s3"
    found = agree(f"{path}:alpha@10", "beta", runs=trained, registry=registry)
    assert (found.u, found.v_step) == (
        "tiny-task/tiny-model-s3:alpha@10",
        find_run(here, "tiny-task/tiny-model-s3").best_step(),
    )


def test_beta_hat_is_the_best_of_the_other_seeds_steps(runs: Path, registry: Registry) -> None:
    """A(alpha, beta-hat) is the maximum over B's checkpoints; the result names both runs and steps."""
    found = agree("alpha", "beta-hat", task="tiny-task", runs=runs, registry=registry)
    alpha = signal_of(runs, registry, "tiny-task/tiny-model-s3", "alpha")
    run = find_run(runs, "tiny-task/tiny-model-s5")
    betas = {step: extract(run, "beta", at=step, registry=registry) for step in run.steps()}
    values = {step: add_up(alpha, beta, A).value for step, beta in betas.items()}
    best = max(values, key=lambda step: values[step])
    assert found.value == values[best]
    assert found.u == alpha.name == f"tiny-task/tiny-model-s3:alpha@{find_run(runs, 'tiny-model-s7').steps()[-1]}"
    assert found.v == f"tiny-task/tiny-model-s5:beta@{best}"
    assert found.ci == measure([(alpha, beta) for beta in betas.values()], A, "agreement")[0].ci


def test_agree_never_swaps(runs: Path, registry: Registry) -> None:
    """u stays u: swapping the arguments swaps the names, and the value is that of the swapped pair."""
    given = {"task": "tiny-task", "runs": runs, "registry": registry}
    for u, v in (("alpha", "delta"), ("delta", "alpha"), ("beta-px@0", "beta-uf@20"), ("beta-uf@20", "beta-px@0")):
        found = agree(u, v, **given)
        assert found.u.partition(":")[2].startswith(u.partition("-")[0])
        assert ("bow-proxy" in found.u) == ("px" in u)
        assert ("bow-proxy" in found.v) == ("px" in v)
    half = "agreement:share=0.5"  # with k = 1 and no ties A is symmetric
    one, two = agree("alpha", "delta", half, **given), agree("delta", "alpha", half, **given)
    assert (one.u, one.v) == (two.v, two.u)
    assert one.value != two.value


def test_only_one_side_may_be_a_maximum(runs: Path, registry: Registry) -> None:
    """Two defaults of @max leave the second; an explicit one wins; two explicit ones are an error."""
    given = {"task": "tiny-task", "runs": runs, "registry": registry}
    uniform, frozen = (find_run(runs, f"tiny-model-{kind}-s1") for kind in ("uniform", "frozen-beta"))
    found = agree("beta-uf", "alpha-fr", **given)
    assert found.u == f"{uniform.name}:beta@{uniform.best_step()}"
    found = agree("beta-uf@max", "alpha-fr", **given)
    assert found.v == f"{frozen.name}:alpha@{frozen.best_step()}"
    with pytest.raises(SpecError, match="both @max: give one of them a step"):
        agree("beta-uf@max", "alpha-fr@max", **given)


def test_files_and_signals_stand_beside_specs(runs: Path, registry: Registry, tmp_path: Path) -> None:
    """A signal in memory, a file and a SPEC of the same thing give the same answer; two files need no runs."""
    given = {"task": "tiny-task", "runs": runs, "registry": registry}
    alpha, delta = (signal_of(runs, registry, "tiny-task/tiny-model-s3", probe) for probe in ("alpha", "delta"))
    expected = agree("alpha", "delta", **given).value
    delta.save(tmp_path / "mine.safetensors")
    alpha.save(tmp_path / "other.safetensors")
    file = str(tmp_path / "mine.safetensors")
    assert agree(alpha, delta, registry=registry).value == expected
    assert agree("alpha", file, **given).value == expected
    assert agree(alpha, "delta", **given).value == expected
    lonely = agree(str(tmp_path / "other.safetensors"), file, runs=tmp_path / "nothing", registry=registry)
    assert (lonely.value, lonely.performance, lonely.xi, lonely.xi_star) == (expected, None, None, None)
    with pytest.raises(SpecError, match="no signal file"):
        agree("alpha", str(tmp_path / "lost.npz"), **given)


def test_gold_is_of_the_corpus_compared(runs: Path, registry: Registry) -> None:
    """The group's, or that of the run that is named; on the sampled training split over the same sentences."""
    given = {"runs": runs, "registry": registry}
    found = agree("alpha", "gold", "aer", task="tiny-task", **given)
    assert found.v == "gold"
    assert found.skipped == 20  # the end of every sentence is not judged
    assert found.value is not None
    assert 0 <= found.value <= 1
    sampled = agree("alpha", "gold", task="tiny-task", split="train", **given)
    assert sampled.skipped == 20
    make_latest(runs / "tiny-mood" / "tiny-model-s0")
    named = agree("tiny-task/tiny-model-s3:alpha", "gold", "aer", **given)
    assert named.value == found.value
    with pytest.raises(SpecError, match="'tiny-mood' has no gold alignment"):
        agree("alpha", "gold", **given)


def test_a_perfect_aligner_agrees_with_gold(runs: Path, registry: Registry) -> None:
    """The end symbol does not count as a match by its ties: gold against itself reversed in each row is 0."""
    gold = Extractor(find_run(runs, "tiny-task/tiny-model-s3"), registry).gold()
    against = replace(gold, values=np.where(gold.values > 0, 0, 1).astype(np.float32))
    assert agree(against, gold, registry=registry).value == 0.0
    assert agree(gold, gold, registry=registry).value == 1.0


def test_other_corpora_do_not_compare(runs: Path, registry: Registry) -> None:
    """Runs of two tasks are refused in a sentence that names both."""
    with pytest.raises(CorpusError, match=r"tiny-mood/tiny-model-s0:alpha@.* different corpora.* compare runs of one"):
        agree("tiny-task/tiny-model-s3:alpha", "tiny-mood/tiny-model-s0:alpha", runs=runs, registry=registry)


def test_sites_are_chosen_by_name(tmp_path: Path, registry: Registry) -> None:
    """alpha[h1] is that head; without a site the mean is compared, and the output says so; a wrong one is told."""
    run = train("tiny-model", steps=0, options={"heads": 2}, runs=tmp_path, registry=registry)
    given = {"runs": tmp_path, "registry": registry}
    whole = extract(run, "alpha", registry=registry)
    delta = extract(run, "delta", registry=registry)
    assert agree("alpha[h1]", "delta", **given).value == add_up(whole.one_site("h1"), delta, A).value
    assert agree("alpha[h1]@0", "delta", **given).u == f"{run.name}:alpha[h1]@0"
    assert agree("alpha", "delta", **given).u == f"{run.name}:alpha[mean]@0"
    with pytest.raises(UnknownNameError, match=r"unknown site 'h2'.*h0, h1, max, mean"):
        agree("alpha[h2]", "delta", **given)


# ξ


def curve_by_hand(
    runs: Path, registry: Registry, task: str, names: list[str], first: str
) -> dict[int, tuple[float, float]]:
    """A(alpha, alpha-hat) and accuracy at each step, averaged over `names`, computed apart from Finder."""
    alpha = signal_of(runs, registry, f"{task}/{first}", "alpha")
    found: dict[int, tuple[float, float]] = {}
    members = [find_run(runs, f"{task}/{name}") for name in names]
    for step in members[0].steps():
        hats = [extract(run, "alpha", at=step, registry=registry) for run in members]
        values = [add_up(alpha, hat, A).value for hat in hats]
        accuracies = [run.performance()[step] for run in members]
        found[step] = (float(np.mean(values)), float(np.mean(accuracies)))
    return found


def first_above(value: float, curve: dict[int, tuple[float, float]]) -> float | None:
    return next((accuracy for _, (a, accuracy) in sorted(curve.items()) if a > value), None)


@pytest.mark.parametrize(
    ("task", "first", "others"),
    [
        ("tiny-task", "tiny-model-s3", ["tiny-model-s5"]),
        ("tiny-mood", "tiny-model-s0", ["tiny-model-s1", "tiny-model-s2", "tiny-model-s3"]),
    ],
)
def test_xi_follows_the_other_seeds(runs: Path, registry: Registry, task: str, first: str, others: list[str]) -> None:
    """Translation: the curve of B; classification: curves averaged over B to F; xi* is A's best, and xi's last word."""
    curve = curve_by_hand(runs, registry, task, others, first)
    star = max(find_run(runs, f"{task}/{first}").performance().values())
    pairs = [("alpha@0", f"{task}/{first}:alpha"), ("alpha@10", "delta"), ("delta", "alpha"), ("alpha", "alpha")]
    for u, v in pairs:
        found = agree(u, v, task=task, runs=runs, registry=registry)
        assert found.value is not None
        expected = first_above(found.value, curve)
        assert found.passed == (expected is not None)
        assert found.xi == pytest.approx(star if expected is None else expected)
        assert (found.performance, found.xi_star) == ("accuracy", star)
    assert agree("alpha", "alpha", task=task, runs=runs, registry=registry).passed is False


def test_classification_averages_over_five_seeds_at_most(
    runs: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B to F: a seventh seed does not change the curve."""
    asked: list[list[str]] = []
    curve = Finder.curve
    given = {"task": "tiny-mood", "runs": runs, "registry": registry}

    def listen(self: Finder, first: Run, others: list[Run], *rest: Any) -> Any:
        asked.append([run.path.name for run in others])
        return curve(self, first, others, *rest)

    monkeypatch.setattr(Finder, "curve", listen)
    for seed in (4, 5, 6):
        train("tiny-model", "tiny-mood", seed=seed, runs=runs, registry=registry)
    agree("alpha", "delta", **given)
    assert asked == [[f"tiny-model-s{seed}" for seed in range(1, 6)]]


def test_xi_is_read_at_steps_that_all_seeds_have(runs: Path, registry: Registry) -> None:
    """A step that one seed lacks is left out, instead of averaging there over fewer."""
    lost = find_run(runs, "tiny-mood/tiny-model-s2")
    (lost.checkpoint(10)).unlink()
    finder = Finder(runs, registry, task="tiny-mood")
    curve = finder.curve(finder.first(), finder.others(), A, "accuracy")
    assert sorted(curve) == [step for step in lost.steps() if step != 10]
    whole = curve_by_hand(runs, registry, "tiny-mood", ["tiny-model-s1", "tiny-model-s3"], "tiny-model-s0")
    assert 10 in whole


def set_accuracy(run: Run, values: list[float]) -> None:
    """As if it had performed so."""
    lines = [{**line, "accuracy": value} for line, value in zip(run.log(), values, strict=True)]
    (run.path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def kinds(found: Any) -> list[str]:
    return [warning.kind for warning in found.warnings]


@pytest.mark.parametrize(
    ("accuracy", "spec", "warned"),
    [
        ([0.4, 0.3, 0.2, 0.3], "alpha", "is best by accuracy at step 0, before any update: none of its 3 later"),
        ([0.4, 0.3, 0.4, 0.4], "alpha", "is best by accuracy at step 0, before any update: none of its 3 later"),
        ([0.4, 0.3, 0.4, 0.4], "alpha@last", "never rose above its start (0.400 at step 0)"),
        ([0.4, 0.3, 0.5, 0.1], "alpha", None),
        ([0.4, 0.3, 0.5, 0.1], "alpha@last", None),
    ],
)
def test_a_run_that_did_not_learn_is_told(
    runs: Path, registry: Registry, accuracy: list[float], spec: str, warned: str | None
) -> None:
    """Where the best checkpoint is the untrained model, or accuracy never rose; a run that fits itself is exempt."""
    run = find_run(runs, "tiny-task/tiny-model-s3")
    set_accuracy(run, accuracy)
    found = agree(spec, "gold", task="tiny-task", runs=runs, registry=registry)
    texts = [str(warning) for warning in found.warnings if warning.kind == "untrained"]
    assert len(texts) == (warned is not None)
    if warned:
        assert run.name in texts[0]
        assert warned in texts[0]
    set_accuracy(find_run(runs, "tiny-task/ibm1-s0"), [0.4, 0.4])
    assert "untrained" not in kinds(agree("beta-ibm", "gold", task="tiny-task", runs=runs, registry=registry))


def test_how_a_step_was_chosen_is_told(runs: Path, registry: Registry) -> None:
    """best with its measure, last, given, or the maximum, which is a warning; nothing of a file or gold."""
    given = {"task": "tiny-task", "runs": runs, "registry": registry}
    for u, v, chosen in (
        ("alpha", "beta-hat", ["best by accuracy", "max of 4 checkpoints"]),
        ("alpha@last", "beta-uf@10", ["last", "given"]),
        ("alpha@max", "gold", ["max of 4 checkpoints", None]),
    ):
        found = agree(u, v, **given)
        assert list(found.chosen.values()) == chosen
        assert ("maximum" in kinds(found)) == any("max" in str(how) for how in chosen)
    found = agree("alpha", "beta", performance="loss", **given)
    assert found.chosen["u"] == "best by loss"
    found = agree("alpha", "beta", split="test", **given)
    assert found.chosen["v"] == "best by accuracy on validation"
    assert "few" in kinds(found)  # 10 sentences
    assert "same" in kinds(agree("alpha", "tiny-task/tiny-model-s5:alpha", **given))  # bare: of that run, too
    assert "same" not in kinds(agree("tiny-task/tiny-model-s3:alpha", "tiny-task/tiny-model-s5:alpha", **given))


def test_xi_needs_a_second_seed_and_a_rising_metric(runs: Path, registry: Registry) -> None:
    """With one seed xi is unknown and xi* known; an error rate has no xi; a value of nothing neither."""
    given = {"task": "tiny-task", "runs": runs, "registry": registry}
    assert agree("alpha", "gold", "aer", **given).xi is None
    for seed in (5, 7):
        shutil.rmtree(runs / "tiny-task" / f"tiny-model-s{seed}")
    found = agree("alpha", "delta", **given)
    assert found.xi is None
    assert found.xi_star == max(find_run(runs, "tiny-task/tiny-model-s3").performance().values())
    assert found.performance == "accuracy"


def test_xi_is_not_borrowed_from_another_group(runs: Path, registry: Registry) -> None:
    """Runs named outright that do not belong to the group have no xi of its curves; stand-ins have."""
    given = {"runs": runs, "registry": registry}
    make_latest(runs / "tiny-mood" / "tiny-model-s0")
    found = agree("tiny-task/tiny-model-s3:alpha", "tiny-task/tiny-model-s5:alpha", **given)
    assert (found.performance, found.xi, found.xi_star) == (None, None, None)
    found = agree("alpha", "beta-ibm", task="tiny-task", **given)
    assert found.xi is not None
    other = train("tiny-model", options={"width": 4}, steps=0, **given)
    found = agree(f"{other.name}:alpha", f"{other.name}:delta", task="tiny-mood", **given)
    assert found.xi is None
    found = agree("tiny-task/tiny-model-s3:alpha", "delta", "agreement", task="tiny-task", **given)
    assert found.value is not None


def test_json_is_the_contracts(runs: Path, registry: Registry) -> None:
    """Exactly its keys; performance is the name of the measure, xi in its unit."""
    found = agree("alpha", "beta", task="tiny-task", runs=runs, registry=registry).to_dict()
    keys = "metric u v value baseline ci rows skipped performance xi xi_star u_step v_step chosen warnings"
    assert list(found) == keys.split()
    assert found["performance"] == "accuracy"
    assert 0 <= found["xi"] <= 1
    assert found["ci"][0] <= found["value"] <= found["ci"][1]
