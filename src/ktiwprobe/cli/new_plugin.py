"""ktiwprobe new-plugin"""

from __future__ import annotations

import re
from importlib.resources import files
from importlib.util import find_spec
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
    """Write an installable plugin with one model and one test.

    It is the folder ktiwprobe-NAME, works as it is, and is there to be changed into your own.

    \b
    ktiwprobe new-plugin my-model
    """
    from ktiwprobe.errors import KtiwprobeError, UsageError

    name = name.removeprefix("ktiwprobe-")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise UsageError(f"{name!r} is not a plugin name: use small letters, digits and dashes, such as my-model")
    registry = load_registry()
    if name in registry.names("models"):
        raise UsageError(f"{name!r} is taken by {registry.entry('models', name).owner}: choose another name")
    folder, module = Path(f"ktiwprobe-{name}"), f"ktiwprobe_{name.replace('-', '_')}"
    if name in registry.owners or find_spec(module):
        raise UsageError(f"there is a plugin {name!r} or a package {module} already: choose another name")
    if folder.exists():
        raise UsageError(f"{folder} exists already: choose another name, or remove it")
    title = "".join(part.capitalize() for part in name.split("-"))
    words = {"name": name, "module": module, "Class": f"{title.removesuffix('Model')}Model"}
    try:
        for source, target in LAYOUT.items():
            path = folder / Template(target).substitute(words)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (files("ktiwprobe.cli") / "template" / source).read_text(encoding="utf-8")
            path.write_text(Template(text).substitute(words), encoding="utf-8")
    except OSError as error:
        raise KtiwprobeError(f"cannot write {folder}: {error.strerror}; go to a folder you may write to") from error
    click.echo(f"wrote {folder}; next: pip install -e ./{folder} && ktiwprobe check {name} && ktiwprobe train {name}")
