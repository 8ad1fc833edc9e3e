"""ktiwprobe new-plugin"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template

import click

from ktiwprobe.cli.common import load_registry

LAYOUT = {
    "pyproject.toml.txt": "pyproject.toml",
    "README.md.txt": "README.md",
    "src/__init__.py.txt": "src/$module/__init__.py",
    "src/plugin.py.txt": "src/$module/plugin.py",
    "src/model.py.txt": "src/$module/model.py",
    "tests/test_model.py.txt": "tests/test_model.py",
}


@click.command("new-plugin")
@click.argument("name")
def command(name: str) -> None:
    """Write the folder ktiwprobe-NAME: an installable plugin with one model and one test, to change into your own."""
    from ktiwprobe.errors import UsageError

    name = name.removeprefix("ktiwprobe-")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise UsageError(f"{name!r} is not a plugin name: use small letters, digits and dashes, such as my-model")
    registry = load_registry()
    if name in registry.names("models"):
        raise UsageError(f"{name!r} is taken by {registry.entry('models', name).owner}: choose another name")
    folder = Path(f"ktiwprobe-{name}")
    if folder.exists():
        raise UsageError(f"{folder} exists already: choose another name, or remove it")
    words = {
        "name": name,
        "module": f"ktiwprobe_{name.replace('-', '_')}",
        "Class": "".join(part.capitalize() for part in name.split("-")),
    }
    try:
        for source, target in LAYOUT.items():
            path = folder / Template(target).substitute(words)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (files("ktiwprobe") / "template" / source).read_text(encoding="utf-8")
            path.write_text(Template(text).substitute(words), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from error
    click.echo(f"wrote {folder}; next: pip install -e ./{folder} && ktiwprobe check {name} && ktiwprobe train {name}")
