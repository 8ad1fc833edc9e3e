"""`python -m benchmarks`: every measurement, one after another, with the machine they were made on."""

import datetime
import os
import platform
from importlib import import_module

import torch

for name in ("startup", "metrics", "trainer", "beta"):
    if name == "startup":
        where = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, torch {torch.__version__}"
        print(f"{datetime.date.today()}, {where}, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}")
    print(f"\n== {name}", flush=True)
    import_module(f"benchmarks.{name}").main()
