import math

import pytest

from aiokafkapy.testing import VirtualClock


def test_stands_still_until_it_is_advanced() -> None:
    clock = VirtualClock(10)
    assert clock.time() == clock.time() == clock() == 10.0


def test_advance_adds_seconds_and_returns_the_new_time() -> None:
    clock = VirtualClock(10)
    assert clock.advance(0.25) == 10.25
    assert clock.time() == 10.25
    assert clock.time_ms == 10_250


def test_advance_to_sets_the_time() -> None:
    clock = VirtualClock(10)
    assert clock.advance_to(12.5) == 12.5
    assert clock.time() == 12.5


@pytest.mark.parametrize("seconds", [-0.001, math.inf, math.nan])
def test_time_never_goes_back_nor_ends(seconds: float) -> None:
    clock = VirtualClock(10)
    with pytest.raises(ValueError, match="advances by finite seconds"):
        clock.advance(seconds)
    with pytest.raises(ValueError, match="cannot become"):
        clock.advance_to(10 + seconds)
    assert clock.time() == 10


@pytest.mark.parametrize("start", [math.inf, math.nan])
def test_a_clock_starts_at_a_time(start: float) -> None:
    with pytest.raises(ValueError, match=f"start={start}: a time is finite"):
        VirtualClock(start)


def test_a_clock_does_not_start_at_zero() -> None:
    assert VirtualClock().time() > 0
