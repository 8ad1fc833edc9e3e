"""The conformance kit on mutants: each returns plausible wrong numbers without an exception, and is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

import honest
import mutants
from ktiwprobe.errors import ContractError
from ktiwprobe.plugins.registry import Registry
from ktiwprobe.testing import check_metric, check_model, check_probe, check_task

NAMES = [model.__name__ for model in mutants.WRONG_MODELS]


def refused(error: pytest.ExceptionInfo[ContractError], sentence: str) -> None:
    """The mistake is named, and nothing that was tried ended in an exception."""
    assert sentence in str(error.value)
    assert " raised " not in str(error.value)


def test_there_are_enough_mutants() -> None:
    """Forty wrong plugins and ten right ones."""
    wrong = (mutants.WRONG_MODELS, mutants.WRONG_PROBES, mutants.WRONG_METRICS, mutants.WRONG_TASKS)
    assert sum(map(len, wrong)) >= 40
    assert len(honest.MODELS) >= 10


@pytest.mark.parametrize("model", mutants.WRONG_MODELS, ids=NAMES)
def test_a_wrong_model_is_refused(model: type, tiny_registry: Registry) -> None:
    """Its mistake is in one sentence, with the site and the size of the difference where there are any."""
    with pytest.raises(ContractError) as error:
        check_model(model, registry=tiny_registry)
    refused(error, mutants.WRONG_MODELS[model])


@pytest.mark.parametrize("probe", mutants.WRONG_PROBES, ids=lambda probe: probe.__name__)
def test_a_wrong_probe_is_refused(probe: Any, tiny_registry: Registry) -> None:
    """On a right model, so that the mistake is the probe's."""
    with pytest.raises(ContractError) as error:
        check_probe(probe, model="tiny-model", registry=tiny_registry)
    refused(error, mutants.WRONG_PROBES[probe])


@pytest.mark.parametrize(("metric", "sentence"), mutants.WRONG_METRICS)
def test_a_wrong_metric_is_refused(metric: Any, sentence: str) -> None:
    """Values compared, rows mixed up, a wrong chance."""
    with pytest.raises(ContractError) as error:
        check_metric(metric)
    refused(error, sentence)


@pytest.mark.parametrize(("task", "sentence"), mutants.WRONG_TASKS, ids=[s for _, s in mutants.WRONG_TASKS])
def test_a_wrong_task_is_refused(task: type, sentence: str) -> None:
    """Links, labels, words or streams that fit every shape and are wrong."""
    with pytest.raises(ContractError) as error:
        check_task(task)
    refused(error, sentence)


def test_the_tasks_that_were_changed_are_right() -> None:
    """What the mutants change is refused, not what they start from."""
    check_task(mutants.task(lambda splits: splits))
    check_task(mutants.task(lambda splits: splits, make=mutants._rotated))
    check_task(mutants.task(lambda splits: splits, kind="classification", make=mutants.classified))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # of torch's own encoder
@pytest.mark.parametrize("model", honest.MODELS, ids=lambda model: model.__name__)
def test_an_honest_model_passes(model: type, tiny_registry: Registry) -> None:
    """However unusual it looks."""
    check_model(model, registry=tiny_registry)
