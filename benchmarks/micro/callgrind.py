"""The files that callgrind writes: what each function cost itself, and how often each was called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["read_calls", "read_costs"]

_NAME: Final = re.compile(r"c?fn=\((\d+)\)(?: (.*))?")


def read_costs(path: Path) -> Counter[str]:
    """The instructions of each function itself, without those that it calls."""
    costs: Counter[str] = Counter()
    is_of_call = False
    for function, _, line in _lines(path):
        if line.startswith("calls="):
            is_of_call = True  # the next line has the cost of the call
        elif line[0] in "0123456789+-*":
            costs[function] += 0 if is_of_call else int(line.split()[-1])
            is_of_call = False
    return costs


def read_calls(path: Path) -> Counter[str]:
    """How often each function was called."""
    calls: Counter[str] = Counter()
    for _, called, line in _lines(path):
        if line.startswith("calls="):
            calls[called] += int(line.removeprefix("calls=").split()[0])
    return calls


# internals


def _lines(path: Path) -> Iterator[tuple[str, str, str]]:
    """Each line of figures, with the function that it is of and the one that was called last. A name is written out
    once, and is a number afterwards.
    """
    names: dict[str, str] = {}
    function = called = ""
    with path.open() as lines:
        for line in lines:
            if named := _NAME.match(line):
                number, name = named.groups()
                name = names.setdefault(number, name)
                if line.startswith("c"):
                    called = name
                else:
                    function = name
            else:
                yield function, called, line
