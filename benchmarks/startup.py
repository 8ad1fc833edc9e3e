"""How long `ktiwprobe --help`, `ls` and `plugins` take, beside what Click and pluggy alone take to import."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS, MOST = 10, 4.0
BASE = [sys.executable, "-c", "import click, pluggy"]
PROGRAM = str(Path(sys.executable).with_name("ktiwprobe"))
COMMANDS = {" ".join(["ktiwprobe", *words]): [PROGRAM, *words] for words in (["--help"], ["ls"], ["plugins"])}


def main() -> None:
    everything = {"import click, pluggy": BASE, **COMMANDS}
    seconds: dict[str, list[float]] = {name: [] for name in everything}
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # as users run it: compiled once
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(ROUNDS + 1):  # interleaved, so that a busy machine slows all of them; the first warms up
            for name, command in everything.items():
                started = time.perf_counter()
                subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
                if turn:
                    seconds[name].append(time.perf_counter() - started)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    base = median["import click, pluggy"]
    for name, value in median.items():
        verdict = "" if name not in COMMANDS else f"  {value / base:.2f}x, at most {MOST:g}x"
        print(f"{name:22}{1000 * value:7.0f} ms{verdict}" + ("" if value <= MOST * base else "  TOO SLOW"))


if __name__ == "__main__":
    main()
