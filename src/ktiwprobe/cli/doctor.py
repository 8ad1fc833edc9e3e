"""ktiwprobe doctor"""

from __future__ import annotations

import click

from ktiwprobe.cli.common import runs_option


@click.command("doctor")
@runs_option
def command(runs: str | None) -> None:
    """Say what this installation has: versions, devices, plugins, and whether runs can be written."""
    import os
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from ktiwprobe.registry import build_registry
    from ktiwprobe.run import runs_folder

    click.echo(f"python {platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs")
    for name in ("ktiwprobe", "torch", "numpy", "scipy", "pandas", "safetensors", "matplotlib"):
        try:
            click.echo(f"{name} {version(name)}")
        except PackageNotFoundError:
            click.echo(f"{name} is missing: pip install {name}", err=True)
    import torch

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    click.echo(f"device: {', '.join(gpus) if gpus else 'cpu (no CUDA device)'}; {torch.get_num_threads()} threads")
    registry = build_registry()
    click.echo(f"plugins: {', '.join(map(str, registry.owners.values()))}")
    folder = runs_folder(runs).absolute()
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    writable = os.access(existing, os.W_OK)
    click.echo(f"runs: {folder} ({'writable' if writable else 'NOT writable: pass --runs or set KTIWPROBE_RUNS'})")
    for failure in registry.failures:
        click.echo(f"failed: {failure}", err=True)
    if registry.failures or not writable:
        raise SystemExit(1)
