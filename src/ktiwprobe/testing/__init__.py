"""The conformance kit: what a plugin must hold to, each failure a sentence that tells the author what to change.

    from ktiwprobe.testing import check_model
    def test_my_model():
        check_model(MyModel)

`ktiwprobe check NAME` runs the same checks on anything that is registered.
"""

from ktiwprobe.testing.engines import check_engine, engine_checks
from ktiwprobe.testing.experiments import check_experiment, experiment_checks
from ktiwprobe.testing.metrics import check_metric, metric_checks
from ktiwprobe.testing.models import check_model, model_checks
from ktiwprobe.testing.outcome import Outcome
from ktiwprobe.testing.probes import check_probe, probe_checks
from ktiwprobe.testing.tasks import check_task, task_checks

__all__ = [
    "Outcome",
    "check_engine",
    "check_experiment",
    "check_metric",
    "check_model",
    "check_probe",
    "check_task",
    "engine_checks",
    "experiment_checks",
    "metric_checks",
    "model_checks",
    "probe_checks",
    "task_checks",
]
