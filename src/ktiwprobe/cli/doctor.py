"""ktiwprobe doctor"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ktiwprobe.cli.common import runs_option

if TYPE_CHECKING:
    from pathlib import Path

LIBRARIES = ("torch", "numpy", "scipy", "pandas", "safetensors", "filelock", "rich", "matplotlib", "jinja2")


@click.command("doctor")
@runs_option
def command(runs: str | None) -> None:
    """Say what this installation has, and whether it can work.

    Versions, devices, plugins and the folder of runs; exit code 1 if something is wrong, with what to do about it.
    """
    import os
    import platform

    from ktiwprobe.registry import build_registry
    from ktiwprobe.run import runs_folder

    click.echo(f"python {platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs")
    problems = _libraries()
    if not problems:
        import torch

        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        click.echo(f"device: {', '.join(gpus) or 'cpu (no CUDA device)'}; {torch.get_num_threads()} threads")
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
