"""Check every pair in processes of their own and write the support table: python -m benchmarks.models [TYPE ...]"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch
import transformers
from benchmarks.models.check import FAULTS, Result, check, pairs
from benchmarks.models.page import counts_of, page_of

LIMIT = 120  # seconds for one pair
PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def work(sender: Connection, model_type: str, kind: str) -> None:
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with Path(os.devnull).open("w") as nothing:  # what libraries print
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    sender.send(check(model_type, kind))
    sender.close()


def run(jobs: list[tuple[str, str]], workers: int) -> Iterator[Result]:
    """The results as they come; a pair that crashes or takes too long is a traceback."""
    context = multiprocessing.get_context("fork")
    waiting, running = list(reversed(jobs)), {}
    while waiting or running:
        while waiting and len(running) < workers:
            job = waiting.pop()
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(sender, *job), daemon=True)
            process.start()
            sender.close()
            running[receiver] = job, process, time.monotonic() + LIMIT
        for receiver in wait(list(running), timeout=1):
            job, process, _ = running.pop(receiver)
            try:
                yield receiver.recv()
            except EOFError:
                process.join()
                yield Result(*job, "traceback", f"the process ended with code {process.exitcode}")
            process.join()
        for receiver, (job, process, end) in list(running.items()):
            if time.monotonic() > end:
                process.kill()
                process.join()
                del running[receiver]
                yield Result(*job, "traceback", f"not finished after {LIMIT} seconds")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("types", nargs="*", help="only these types, or TYPE/KIND; the page is then not written")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, default=Path(tempfile.gettempdir()) / "ktiwprobe-models.json")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    jobs = [job for job in pairs() if not arguments.types or {job[0], "/".join(job)} & set(arguments.types)]
    start, results = time.monotonic(), []
    for result in run(jobs, arguments.workers):
        results.append(result)
        if arguments.types or result.outcome in FAULTS:
            acted = ", ".join(result.acted)
            print(f"{result.outcome:15} {result.model_type} {result.kind}  [{acted}]  {result.reason}", flush=True)
    results.sort(key=lambda result: (result.model_type, result.kind))
    arguments.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    if not arguments.types:
        PAGE.write_text(page_of(results))
    print(f"{time.monotonic() - start:.0f} seconds; details of every pair: {arguments.json}")
    print(counts_of(results))
    return 1 if any(result.outcome in FAULTS for result in results) else 0


if __name__ == "__main__":
    raise SystemExit(main())
