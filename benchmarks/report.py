"""How long a report takes and how large it is, and how quick its page is, in headless Chromium where there is one.

The run is an lstm-seq2seq of 25 checkpoints (written as they come, untrained: speed does not depend on what they say)
on 1,000 validation sentences of toy-translation. Signals are extracted before the clock starts. The slider is also
moved on pages of long texts: sentences of 60 words and documents of 400.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import chromium

SENTENCES, CHECKPOINTS = 1000, 25
MOST_SECONDS, MOST_MB, MOST_PAGE_MB = 20, 1024, 5
MOST_READY_MS, MOST_PAINT_MS = 1000, 50
EVERY = {"hidden": 32, "checkpoints": "every:2", "evaluations": "checkpoints"}
USUAL = {"model": "lstm-seq2seq", "options": {"layers": 1, "task.train": 200, "validation": SENTENCES}}
LONG: dict[str, dict[str, Any]] = {
    "60 x 60 sentence": {
        "model": "lstm-seq2seq",
        "task": "copy",
        "options": {"layers": 1, "length": 60, "validation": 10},
    },
    "400-word document": {
        "model": "lstm-classifier",
        "task": "keyword",
        "options": {"task.length": 400, "validation": 10},
    },
}
REPORT = """
import resource, sys, time
from pathlib import Path
from ktiwprobe.cli import main
begun = time.perf_counter()
main(["report", "--runs", sys.argv[1], "--out", sys.argv[2], "--quiet", *sys.argv[3:]], standalone_mode=False)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(time.perf_counter() - begun, peak, Path(sys.argv[2]).stat().st_size / 1e6)
"""
MOVE = """
const done = arguments[0], slider = document.querySelector('[data-part="slider"]'), times = [];
slider.scrollIntoView(); // what is out of sight need not be painted
const next = (place) => {
  if (place > 24) return done(times);
  const begun = performance.now();
  slider.value = place;
  slider.dispatchEvent(new Event("input"));
  requestAnimationFrame(() => setTimeout(() => { times.push(performance.now() - begun); next(place + 1); }));
};
next(0);
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        usual, every = folder / "usual.html", folder / "every.html"
        make_run(folder / "runs", USUAL)
        write(folder / "runs", usual)  # extracts
        limits = f"at most {MOST_SECONDS} s, {MOST_MB} MB"
        for path, words in ((usual, ["--force"]), (every, ["--sentences", str(SENTENCES)])):
            seconds, memory, size = write(folder / "runs", path, *words)
            shown = "50 sentences shown" if path == usual else f"all {SENTENCES:,} shown"
            verdict = "" if seconds <= MOST_SECONDS and memory <= MOST_MB else "  TOO MUCH"
            print(f"report of {SENTENCES:,} sentences x {CHECKPOINTS} checkpoints, {shown}: {seconds:.1f} s, "
                  f"{memory:.0f} MB ({limits}){verdict}; page {size:.1f} MB")  # fmt: skip
            if path == usual and size > MOST_PAGE_MB:
                print(f"  TOO LARGE: at most {MOST_PAGE_MB} MB")
        if chromium.is_here():
            in_browser(usual, folder)
        else:
            print(f"the page was not measured in a browser: {chromium.MISSING}")


def make_run(runs: Path, wishes: dict[str, Any]) -> None:
    """A run of CHECKPOINTS checkpoints."""
    from ktiwprobe import train

    train(**{**wishes, "options": EVERY | wishes["options"]}, steps=2 * (CHECKPOINTS - 1), runs=runs)


def write(runs: Path, out: Path, *words: str) -> tuple[float, float, float]:
    """Seconds, MB of memory and MB of page of one report, in a process of its own; imports count."""
    command = [sys.executable, "-c", REPORT, str(runs), str(out), *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, memory, size = map(float, done.stdout.split("\n")[-2].split())
    return seconds, memory, size


def in_browser(usual: Path, folder: Path) -> None:
    """Until a page answers, and from a move of its slider until the next frame is done."""
    pages = {"": usual}
    for number, (what, wishes) in enumerate(LONG.items()):
        make_run(folder / f"long{number}", wishes)
        pages[f" of a {what}"] = folder / f"long{number}.html"
        write(folder / f"long{number}", folder / f"long{number}.html")
    driver = chromium.start(folder / "profile")
    try:
        for what, page in pages.items():
            ready, moves = measure(driver, page)
            tell(f"page{what} answers after", ready, MOST_READY_MS)
            tell(f"slider move{what} paints in", moves, MOST_PAINT_MS)
    finally:
        driver.quit()


def measure(driver: Any, page: Path) -> tuple[list[float], list[float]]:
    """Milliseconds of 5 loads, and of a walk over all steps after each."""
    ready, moves = [], []
    for _ in range(5):
        driver.get(page.as_uri())
        ready.append(driver.execute_script("return performance.getEntriesByName('ready')[0].startTime"))
        moves += driver.execute_async_script(MOVE)
    return ready, moves


def tell(what: str, times: list[float], most: float) -> None:
    """The median against its limit; the highest is at the mercy of what else the machine does."""
    middle = statistics.median(times)
    print(f"{what} {middle:.0f} ms (highest {max(times):.0f}; at most {most})" + ("  TOO SLOW" * (middle > most)))


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"({time.perf_counter() - started:.0f} s in all)")
