"""Public names for experiments; each is defined in `ktiwprobe.claims`."""

from ktiwprobe.claims.experiment import Context, Report, Result, SweepError, reproduce
from ktiwprobe.training.sweep import Job

__all__ = ["Context", "Job", "Report", "Result", "SweepError", "reproduce"]
