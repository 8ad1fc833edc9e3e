"""How long a report takes and how large it is, and how quick its page is, in headless Chromium where there is one.

The run is an lstm-seq2seq of 25 checkpoints (written as they come, untrained: speed does not depend on what they say)
on 1,000 validation sentences of toy-translation. Signals are extracted before the clock starts.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SENTENCES, CHECKPOINTS = 1000, 25
MOST_SECONDS, MOST_MB, MOST_PAGE_MB = 20, 1024, 5
MOST_READY_MS, MOST_PAINT_MS = 1000, 50
OPTIONS = {
    "hidden": 32,
    "layers": 1,
    "task.train": 200,
    "validation": SENTENCES,
    "checkpoints": "every:2",
    "evaluations": "checkpoints",
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
    from ktiwprobe import train

    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        train("lstm-seq2seq", steps=2 * (CHECKPOINTS - 1), options=OPTIONS, runs=runs)
        usual, every = Path(folder) / "usual.html", Path(folder) / "every.html"
        write(runs, usual)  # extracts
        limits = f"at most {MOST_SECONDS} s, {MOST_MB} MB"
        for path, words in ((usual, ["--force"]), (every, ["--sentences", str(SENTENCES)])):
            seconds, memory, size = write(runs, path, *words)
            shown = "50 sentences shown" if path == usual else f"all {SENTENCES:,} shown"
            verdict = "" if seconds <= MOST_SECONDS and memory <= MOST_MB else "  TOO MUCH"
            print(f"report of {SENTENCES:,} sentences x {CHECKPOINTS} checkpoints, {shown}: {seconds:.1f} s, "
                  f"{memory:.0f} MB ({limits}){verdict}; page {size:.1f} MB")  # fmt: skip
            if path == usual and size > MOST_PAGE_MB:
                print(f"  TOO LARGE: at most {MOST_PAGE_MB} MB")
        if shutil.which("chromium") and shutil.which("chromedriver"):
            in_browser(usual, Path(folder) / "profile")
        else:
            print("no chromium here: the page was not measured in a browser")


def write(runs: Path, out: Path, *words: str) -> tuple[float, float, float]:
    """Seconds, MB of memory and MB of page of one report, in a process of its own; imports count."""
    command = [sys.executable, "-c", REPORT, str(runs), str(out), *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, memory, size = map(float, done.stdout.split("\n")[-2].split())
    return seconds, memory, size


def in_browser(page: Path, profile: Path) -> None:
    """Until the page answers, and from a move of the slider until the next frame is done; medians of 5 loads."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    flags = "headless=new no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    for flag in (*flags.split(), "disable-component-update", "disable-sync", f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        ready, moves = [], []
        for _ in range(5):
            driver.get(page.as_uri())
            ready.append(driver.execute_script("return performance.getEntriesByName('ready')[0].startTime"))
            moves += driver.execute_async_script(MOVE)
    finally:
        driver.quit()
    for what, times, most in (
        ("page answers after", ready, MOST_READY_MS),
        ("slider move paints in", moves, MOST_PAINT_MS),
    ):
        middle = statistics.median(times)
        print(f"{what} {middle:.0f} ms (highest {max(times):.0f}; at most {most})" + ("  TOO SLOW" * (middle > most)))


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"({time.perf_counter() - started:.0f} s in all)")
