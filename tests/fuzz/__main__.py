"""``python -m tests.fuzz --minutes 10 --seed 1 --target requests``: fuzz for as long as there is time.

Everything follows from the seed: input number N of a seed is the same in each run. Each finding is printed with its
traceback and written into a file, which ``--replay`` takes. The exit status is 1 when there was a finding.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

from .corpus import kept, read, write
from .mutator import mutate
from .targets import TARGETS, Target, check, opened

HANG = 60
"""Seconds that one input may take; it takes a millisecond."""
REPORT = 10.0
MOST_FINDINGS = 20
"""The findings of one target after which it ends: the rest would be the same."""


class HangError(AssertionError):
    """An input that does not end."""


def main(arguments: list[str] | None = None) -> int:
    """Parse, fuzz or replay, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="minutes for each target (default: %(default)s)")
    parser.add_argument("--inputs", type=int, help="inputs for each target, instead of a time")
    parser.add_argument("--seed", type=int, default=0, help="the seed of all inputs (default: %(default)s)")
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="may be repeated; default: all")
    parser.add_argument("--findings", type=Path, default=Path("out/fuzz"), help="folder for findings (%(default)s)")
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="only these inputs; give one --target")
    options = parser.parse_args(arguments)
    if options.replay and len(options.target or ()) != 1:
        parser.error("--replay needs the one --target that the files are for")
    signal.signal(signal.SIGALRM, _on_alarm)
    findings = 0
    for name in options.target or sorted(TARGETS):
        with opened(TARGETS[name]()) as target:
            if options.replay:
                findings += sum(not _passes(target, read(path), options.findings) for path in options.replay)
            else:
                findings += _fuzz(target, options)
    return 1 if findings else 0


def _fuzz(target: Target, options: Any) -> int:
    chance = random.Random(f"{target.name} {options.seed}")
    seeds = [read(path) for path in kept(target.name)]
    started = reported = time.monotonic()
    count = findings = 0
    while findings < MOST_FINDINGS and (
        count < options.inputs if options.inputs else time.monotonic() - started < options.minutes * 60
    ):
        data = target.valid(chance) if not seeds or chance.random() < 0.7 else chance.choice(seeds)
        if chance.random() < 0.95:
            other = target.valid(chance) if chance.random() < 0.3 else data
            data = mutate(data, other, chance)
        count += 1
        findings += not _passes(target, data, options.findings)
        if time.monotonic() - reported > REPORT:
            reported = time.monotonic()
            _say(f"{target.name}: {count} inputs, {count / (reported - started):.0f}/s, {findings} findings")
    _say(
        f"{target.name}: {count} inputs in {time.monotonic() - started:.0f} s, {findings} findings, seed {options.seed}"
    )
    return findings


def _passes(target: Target, data: bytes, folder: Path) -> bool:
    signal.alarm(HANG)
    try:
        check(target, data)
    except Exception:
        path = write(folder / target.name, data)
        _say(f"FINDING in {target.name}, {len(data)} bytes, written to {path}: {data[:80].hex()}")
        traceback.print_exc()
        return False
    finally:
        signal.alarm(0)
    return True


def _on_alarm(*_: object) -> NoReturn:
    raise HangError(f"one input takes more than {HANG} s")


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
