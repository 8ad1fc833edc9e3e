"""`python -m benchmarks`: every measurement, each in a process of its own, with the machine they were made on."""

import datetime
import os
import platform
import subprocess
import sys

import torch

where = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, torch {torch.__version__}"
print(f"{datetime.date.today()}, {where}, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}")
MEASUREMENTS = (
    "startup",
    "metrics",
    "trainer",
    "text_step",
    "beta",
    "delta",
    "hf_beta",
    "guards",
    "table",
    "ibm1",
    "copying",
    "threads",
    "report",
)
for name in MEASUREMENTS:
    print(f"\n== {name}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
