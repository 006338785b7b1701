"""Benchmarks: ``python -m benchmarks`` runs us and the peers interleaved on one real Kafka and prints ratios.

``macro`` has the workloads, each run in a process of its own so that CPU and memory are the client's; ``micro`` has the
benchmarks without a broker. Results go to ``benchmarks/results`` with machine and versions. Rates swing on a small
machine: compare only within one run, and look at the ranges.
"""

import sys

# kio loads hypothesis wherever it is installed, as it is beside the test tools and is not in production: some ten
# thousand objects for the garbage collector to walk over, and 10 MB. Not in a process that has loaded it already.
sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
