"""``python -m benchmarks instructions --hot``: the core's C functions that every lone record runs.

Owns ``aiokafkapy/hot_functions.txt``, a C name a line, by which ``setup.py`` has the compiler lay these functions
beside one another. A processor that waited for an answer has little of the code left in its caches, and looks up each
page anew: among the core's seven megabytes these functions lie on two hundred pages, together on half as many.

Rule: a name says its module, as Cython's do; helpers that each module has under the same name are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from .callgrind import read_costs

__all__ = ["FILE", "LoneRuns", "hot_functions", "write_hot_functions"]

FILE: Final = Path(__file__).parents[2] / "aiokafkapy" / "hot_functions.txt"
FEWEST: Final = 3
"""Instructions for each record of a function that each record runs; a function that runs now and then has less on
average.
"""

_OF_A_MODULE: Final = re.compile(r"__pyx_(?:f|pw|tp_new|tp_dealloc|getprop|setprop)_\d+aiokafkapy_\w+")


class LoneRuns(NamedTuple):
    """Callgrind's files of two runs that send record by record; the longer one sends ``more`` of them."""

    short: Path
    long: Path
    more: int


def hot_functions(short: Mapping[str, int], long: Mapping[str, int], more: int) -> set[str]:
    """The functions that each record runs, from the costs of two runs, of which the longer has ``more`` records."""
    # A recursion, and a variant of a function that GCC made, have a suffix.
    bare = {name: match.group() for name in long if (match := _OF_A_MODULE.match(name))}
    spent: Counter[str] = Counter()
    for name, function in bare.items():
        spent[function] += long[name] - short.get(name, 0)
    return {function for function, count in spent.items() if count >= FEWEST * more}


def write_hot_functions(runs: Sequence[LoneRuns], file: Path = FILE) -> list[str]:
    """Write the file; returns the functions."""
    found = (hot_functions(read_costs(run.short), read_costs(run.long), run.more) for run in runs)
    functions = sorted(set[str]().union(*found))
    file.write_text("".join(f"{function}\n" for function in functions))
    return functions
