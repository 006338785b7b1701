"""The public calls in both forms: any argument has the same outcome, compiled and interpreted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import aiokafkapy

PLANS = [str(seed) for seed in range(160)]


def outcomes(interpreted: str) -> list[list[str]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.calls", *PLANS],
        cwd=Path(__file__).resolve().parents[2],
        env=os.environ | {"AIOKAFKAPY_INTERPRETED": interpreted},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not aiokafkapy.compiled, reason="there is one form only")
def test_odd_arguments_and_hostile_hooks_end_alike_in_both_forms() -> None:
    compiled, interpreted = outcomes("0"), outcomes("1")
    differing = {seed: pair for seed, *pair in zip(PLANS, compiled, interpreted, strict=True) if pair[0] != pair[1]}
    assert not differing
    assert len({outcome for plan in compiled for outcome in plan}) > 60, "the plans are of many kinds"
