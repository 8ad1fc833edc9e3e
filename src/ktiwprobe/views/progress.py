"""Progress as people see it: a bar on a terminal, plain lines elsewhere, nothing if quiet; all on standard error."""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ktiwprobe.files.progress import JobState, Progress

REFRESH = 0.25  # seconds between looks at the loss, which may have to wait for the device


def make_progress(quiet: bool) -> Progress:
    """The progress display that suits where the output goes."""
    if quiet:
        return Quiet()
    if not sys.stderr.isatty():
        return Lines()
    bars = Bars()
    atexit.register(bars.end)  # an error must not leave the cursor hidden
    return bars


class Quiet(Progress):
    """Only what a person should know."""

    def say(self, sentence: str) -> None:
        """Print it."""
        sys.stderr.write(f"ktiwprobe: {sentence}\n")


class Lines(Quiet):
    """A line for each evaluation, with its speed."""

    def begin(self, label: str, total: int, done: int = 0, unit: str = "steps") -> None:
        """Name the job."""
        self.label, self.total, self.done, self.first = label, total, done, done
        self.started = time.monotonic()
        sys.stderr.write(f"{label}: {total} {unit}" + (f", going on from {done}" if done else "") + "\n")

    def advance(self, done: int, loss: Callable[[], float] | None = None) -> None:
        """Remember how far it is."""
        self.done = done

    def evaluated(self, record: Mapping[str, Any]) -> None:
        """A line of the log, for people."""
        speed = (self.done - self.first) / max(time.monotonic() - self.started, 1e-9)
        left = f"  {speed:.1f} steps/s  ETA {(self.total - self.done) / speed:.0f} s" if speed else ""
        sys.stderr.write(f"step {record['step']:>6}/{self.total}  {_numbers(record)}{left}\n")

    def job_ended(self, name: str, how: str) -> None:
        """A line for each job, with the time so far."""
        self.done += 1
        sys.stderr.write(f"[{self.done}/{self.total}] {time.monotonic() - self.started:.0f} s  {name}: {how}\n")


class Bars(Quiet):
    """A bar with speed, loss, accuracy and the time left."""

    bar: Any = None

    def begin(self, label: str, total: int, done: int = 0, unit: str = "steps") -> None:
        """Draw the bar, in place of any that an error has left."""
        from rich import progress
        from rich.console import Console
        from rich.table import Column

        self.end()
        whole = Column(no_wrap=True)  # of 80 columns the bar takes what the numbers leave
        columns = (
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=None),
            progress.MofNCompleteColumn(table_column=whole),
            progress.TextColumn("{task.fields[speed]}{task.fields[numbers]}"),
            progress.TimeRemainingColumn(compact=True, table_column=whole),
        )
        self.bar = progress.Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4)
        self.job = self.bar.add_task(_short(label), total=total, completed=done, speed="", numbers="")
        self.first, self.started, self.looked, self.accuracy = done, time.monotonic(), 0.0, ""
        self.below: dict[str, Any] = {}  # the bars of jobs by their name
        self.bar.start()

    def advance(self, done: int, loss: Callable[[], float] | None = None) -> None:
        """Move the bar, at most a few times a second."""
        now = time.monotonic()
        if now - self.looked < REFRESH:
            return
        self.looked = now
        speed = "" if self.below else f"{(done - self.first) / max(now - self.started, 1e-9):.1f}/s "
        numbers = f"loss {loss():.2f} {self.accuracy}" if loss else ""
        self.bar.update(self.job, completed=done, speed=speed, numbers=numbers)

    def evaluated(self, record: Mapping[str, Any]) -> None:
        """Show the newest accuracy."""
        self.accuracy = f"accuracy {record['accuracy']:.3f}"

    def jobs(self, running: Sequence[JobState]) -> None:
        """A bar below for each job that runs."""
        for name in self.below.keys() - {job.name for job in running}:
            self.bar.remove_task(self.below.pop(name))
        for job in running:
            if job.name not in self.below:
                self.below[job.name] = self.bar.add_task(_short(job.name), total=job.target, speed="", numbers="")
            accuracy = f"accuracy {job.record['accuracy']:.3f}" if "accuracy" in job.record else ""
            self.bar.update(self.below[job.name], completed=job.step, numbers=accuracy)

    def say(self, sentence: str) -> None:
        """Print above the bar."""
        if self.bar is None:
            super().say(sentence)
        else:
            self.bar.console.print(f"ktiwprobe: {sentence}", markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def _numbers(record: Mapping[str, Any]) -> str:
    return "  ".join(f"{key} {value:.4g}" for key, value in record.items() if key != "step")


def _short(label: str) -> str:
    """A run's name without its task, and without its middle where it is long."""
    name = label.rpartition("/")[2]
    return name if len(name) <= 32 else f"{name[:15]}…{name[-16:]}"
