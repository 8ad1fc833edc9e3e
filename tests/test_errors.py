"""The errors of the library: they can be pickled, carry hints, and speak of no command line."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

from ktiwprobe.errors import KtiwprobeError, RunError

ROOT = Path(__file__).parents[1]
COMMANDS = re.compile("`[^`]*`")  # a whole command may be typed by anyone
FLAG = re.compile(r"(^|[ (])--[a-z]")
TYPED_IN = {  # they write commands, not errors
    "src/ktiwprobe/compare/finder.py",
    "src/ktiwprobe/runs/groups.py",
    "src/ktiwprobe/views/page/page.py",  # CSS
    "plugins/ktiwprobe_paper/experiments/multihead.py",  # a note beside the result of a command
}


def texts(tree: ast.AST) -> Iterator[str]:
    """Every text but docstrings; the parts of one that is formatted are joined."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            node.body[0].value = ast.Constant(None)
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in formatted for part in node.values}
    plain = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in parts]
    for values in (*(node.values for node in formatted), *([node] for node in plain)):
        yield "".join(str(value.value) if isinstance(value, ast.Constant) else "{}" for value in values)


def test_no_error_of_the_library_names_a_flag():
    """Whoever calls the library from Python has none; the command line adds them from an error's hint."""
    files = [*ROOT.glob("src/ktiwprobe/**/*.py"), *ROOT.glob("plugins/**/*.py")]
    files = [file for file in files if "cli" not in file.relative_to(ROOT).parts]
    assert len(files) > 100
    named = {
        f"{file.relative_to(ROOT)}: {text}"
        for file in files
        if str(file.relative_to(ROOT)) not in TYPED_IN
        for text in texts(ast.parse(file.read_text(encoding="utf-8")))
        if FLAG.search(COMMANDS.sub("", text))
    }
    assert named == set()


def test_a_hint_is_no_part_of_the_sentence():
    """It is there for programs, also after a journey between processes."""
    error = pickle.loads(pickle.dumps(RunError("it stopped: resume it", hint="resume=True")))
    assert (str(error), error.hint) == ("it stopped: resume it", "resume=True")
    assert KtiwprobeError().hint == ""
