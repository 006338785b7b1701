"""The wall clock that can be moved."""

from __future__ import annotations

import time

import pytest

from aiokafkapy.broker.clock import WallClock


def test_the_clock_is_the_systems_and_goes_forward_when_it_is_told_to() -> None:
    clock = WallClock()
    before = int(time.time() * 1000)
    assert before <= clock() <= before + 60_000
    clock.advance(3_600)
    assert clock() >= before + 3_600_000
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="time goes forward only"):
            clock.advance(wrong)
