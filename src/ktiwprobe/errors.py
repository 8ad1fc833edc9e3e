"""Every error a user can meet; the command line turns each into one sentence, anything else keeps its traceback.

KtiwprobeError            exit 1
├── UsageError            exit 2: what was asked for cannot be
│   ├── UnknownNameError  no such task, model, probe, metric, run, step ...
│   ├── OptionError       a key or value that does not fit
│   └── SpecError         a SPEC that cannot be read or resolved
├── PluginError           a plugin fails to load, or claims a name twice
│   └── ContractError     a plugin returned what the protocols do not allow
├── CorpusError           an empty corpus, text and ids that do not match, two corpora that differ
├── RunError              a run directory that is missing something
│   ├── RunBusyError      another process writes to it
│   └── DamagedFileError  a file that is truncated or altered
└── Interrupted           exit 130: stopped by Ctrl-C, everything saved
"""

import contextlib
import sys
import traceback
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

LIBRARIES = {"ktiwprobe", "torch", "numpy", "scipy", "sklearn", "transformers", "huggingface_hub"}  # no plugins


MANY, FEW = 50, 5  # names: above so many, only so few are listed


class KtiwprobeError(Exception):
    """Base of all expected errors; its text is one sentence: found, expected, what to do.

    The text names no command-line flag. `hint` is the argument that would help, as Python writes it ("resume=True",
    "level=word", "workers=None" to leave it out, "runs" if any value may do), several joined by " or "; the command
    line names the flag for it.
    """

    exit_code = 1

    def __init__(self, text: str = "", *, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class UsageError(KtiwprobeError):
    """What was asked for cannot be."""

    exit_code = 2


class UnknownNameError(UsageError):
    """A name that nobody registered; lists what exists and suggests the nearest."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, why: str = "") -> None:
        super().__init__(f"unknown {kind} {name!r}{suggest(name, known)}{why}")


class OptionError(UsageError):
    """An option key or value that does not fit."""


class SpecError(UsageError):
    """A SPEC that cannot be read, or that no run answers."""


class PluginError(KtiwprobeError):
    """A plugin that fails to load, or claims a name that is taken."""


class ContractError(PluginError):
    """A plugin returned what the protocols do not allow."""


class CorpusError(KtiwprobeError):
    """A corpus that is empty or malformed, or two that differ where they must not."""


class RunError(KtiwprobeError):
    """A run directory that is missing something."""


class RunBusyError(RunError):
    """Another process writes to this run."""


class DamagedFileError(RunError):
    """A file that is truncated or altered."""


class Interrupted(KtiwprobeError):
    """Stopped by Ctrl-C, everything saved."""

    exit_code = 130


def suggest(name: str, known: Iterable[str]) -> str:
    """The tail of a sentence about an unknown `name`: the nearest one, then all of them; of many, the nearest few."""
    names = sorted(known)
    if not names:
        return ": there are none"
    near = get_close_matches(name, names, n=FEW, cutoff=0.5)
    guess = f"; did you mean {near[0]!r}?" if near else ";"
    if len(names) > MANY:
        return f"{guess} there are {len(names)}, such as {', '.join(near or names[:FEW])}"
    return f"{guess} known: {', '.join(names)}"


def raised_at(error: BaseException) -> str:
    """File and line in the plugin where an exception came from; empty if no plugin's code ran."""
    here = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if top not in LIBRARIES and top not in sys.stdlib_module_names:
            here = f"{frame.f_code.co_filename}:{line}"
    return here


@contextlib.contextmanager
def plugin_errors(what: str) -> Iterator[None]:
    """Turn an exception of a plugin's code into a sentence with its file and line; ours keep their traceback."""
    try:
        yield
    except KtiwprobeError:
        raise
    except Exception as error:  # the code that runs here is a plugin's
        place = raised_at(error)
        if not place:
            raise
        text = " ".join(str(error).split())[:300]
        raise ContractError(f"{what} raised {type(error).__name__}: {text} ({place})") from error
