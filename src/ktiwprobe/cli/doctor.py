"""ktiwprobe doctor"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ktiwprobe.cli.common import runs_option

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIBRARIES = ("torch", "numpy", "scipy", "pandas", "safetensors", "filelock", "rich", "matplotlib", "jinja2")
SIDE, TRIES = 1024, 5  # of the matrices that are multiplied to see how fast that is
MUCH = 1.5  # times as fast is worth a page


@click.command("doctor")
@runs_option
def command(runs: str | None) -> None:
    """Say what this installation has, and whether it can work.

    Versions, devices, plugins and the folder of runs; exit code 1 if something is wrong, with what to do about it.
    """
    import os
    import platform

    from ktiwprobe.plugins.registry import build_registry
    from ktiwprobe.runs.run import runs_folder

    click.echo(f"python {platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs")
    problems = _libraries()
    if not problems:
        import torch

        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        click.echo(f"device: {', '.join(gpus) or 'cpu (no CUDA device)'}; {torch.get_num_threads()} threads")
        click.echo(f"products of float32 matrices on one core: {_products()}")
    registry = build_registry()
    owners = (f"{owner.plugin} ({owner.distribution} {owner.version})" for owner in registry.owners.values())
    click.echo(f"plugins: {', '.join(owners)}")
    problems += map(str, registry.failures)
    folder = runs_folder(runs).absolute()
    click.echo(f"runs: {folder}")
    problems += _unwritable(folder)
    for problem in problems:
        click.echo(f"ktiwprobe: {problem}", err=True)
    click.echo("something is wrong" if problems else "all is well")
    if problems:
        raise SystemExit(1)


def _products() -> str:
    """How fast they are, which bounds every training on the CPU; and by oneDNN, where BLAS leaves much of it."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    a, b = torch.rand(2, SIDE, SIDE)
    speeds = {"torch": _speed(lambda: torch.mm(a, b))}
    linear = getattr(torch.ops.mkldnn, "_linear_pointwise", None)  # torch's own: a later version may not have it
    if linear is not None and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        speeds["oneDNN"] = _speed(lambda: linear(a, b, None, "none", [], ""))
    torch.set_num_threads(threads)
    told = ", ".join(f"{speed:.0f} GFLOP/s by {name}" for name, speed in speeds.items())
    return told + (" (docs/speed.md)" if max(speeds.values()) > MUCH * speeds["torch"] else "")


def _speed(product: Callable[[], object]) -> float:
    """In 1e9 operations a second, the best of a few."""
    import time

    def seconds() -> float:
        began = time.perf_counter()
        product()
        return time.perf_counter() - began

    seconds()  # the first one also gets ready
    return 2 * SIDE**3 / 1e9 / min(seconds() for _ in range(TRIES))


def _libraries() -> list[str]:
    """Print a line for each library; a sentence for each that is missing."""
    from importlib.metadata import PackageNotFoundError, version

    missing = []
    for name in ("ktiwprobe", *LIBRARIES):
        try:
            click.echo(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(f"{name} is missing: pip install {name}")
    return missing


def _unwritable(folder: Path) -> list[str]:
    """A sentence if runs cannot be written to `folder`; tried in the part of its path that exists."""
    from tempfile import TemporaryFile

    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with TemporaryFile(dir=existing):
            return []
    except OSError as error:
        return [f"cannot write to {folder}: {error.strerror}; pass --runs or set KTIWPROBE_RUNS"]
