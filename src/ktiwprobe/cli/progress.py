"""Progress as people see it: a bar on a terminal, plain lines elsewhere, nothing if quiet; all on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import click

from ktiwprobe.progress import Progress

REFRESH = 0.25  # seconds between looks at the loss, which may have to wait for the device


def make_progress(quiet: bool) -> Progress:
    """The progress display that suits where the output goes."""
    if quiet:
        return Quiet()
    return Bars() if sys.stderr.isatty() else Lines()


class Quiet(Progress):
    """Only what a person should know."""

    def say(self, sentence: str) -> None:
        """Print it."""
        click.echo(f"ktiwprobe: {sentence}", err=True)


class Lines(Quiet):
    """A line for each evaluation, with its speed."""

    def begin(self, label: str, total: int, done: int = 0, unit: str = "steps") -> None:
        """Name the job."""
        self.label, self.total, self.done, self.first = label, total, done, done
        self.started = time.monotonic()
        click.echo(f"{label}: {total} {unit}" + (f", going on from {done}" if done else ""), err=True)

    def advance(self, done: int, loss: Callable[[], float] | None = None) -> None:
        """Remember how far it is."""
        self.done = done

    def evaluated(self, record: Mapping[str, Any]) -> None:
        """A line of the log, for people."""
        speed = (self.done - self.first) / max(time.monotonic() - self.started, 1e-9)
        left = f"  {speed:.1f} steps/s  ETA {(self.total - self.done) / speed:.0f} s" if speed else ""
        click.echo(f"step {record['step']:>6}/{self.total}  {_numbers(record)}{left}", err=True)


class Bars(Quiet):
    """A bar with speed, loss, accuracy and the time left."""

    def begin(self, label: str, total: int, done: int = 0, unit: str = "steps") -> None:
        """Draw the bar."""
        from rich import progress
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=None),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[speed]}{task.fields[numbers]}"),
            progress.TimeRemainingColumn(),
        )
        self.bar = progress.Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4)
        self.job = self.bar.add_task(label, total=total, completed=done, speed="", numbers="")
        self.first, self.started, self.looked, self.accuracy = done, time.monotonic(), 0.0, ""
        self.bar.start()

    def advance(self, done: int, loss: Callable[[], float] | None = None) -> None:
        """Move the bar, at most a few times a second."""
        now = time.monotonic()
        if now - self.looked < REFRESH:
            return
        self.looked = now
        speed = f"{(done - self.first) / max(now - self.started, 1e-9):.1f}/s "
        numbers = f"loss {loss():.3f} {self.accuracy}" if loss else ""
        self.bar.update(self.job, completed=done, speed=speed, numbers=numbers)

    def evaluated(self, record: Mapping[str, Any]) -> None:
        """Show the newest accuracy."""
        self.accuracy = f"accuracy {record['accuracy']:.3f}"

    def say(self, sentence: str) -> None:
        """Print above the bar."""
        click.echo(f"ktiwprobe: {sentence}", err=True)

    def end(self) -> None:
        """Take the bar away."""
        self.bar.stop()


def _numbers(record: Mapping[str, Any]) -> str:
    return "  ".join(f"{key} {value:.4g}" for key, value in record.items() if key != "step")
