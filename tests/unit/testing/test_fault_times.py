"""The number of times that a fault of a test tool happens."""

from __future__ import annotations

import pytest

from aiokafkapy.testing.fault_times import checked_times


def test_a_number_of_times_below_one_is_refused() -> None:
    assert (checked_times(None), checked_times(1)) == (None, 1)
    with pytest.raises(ValueError, match="times=0"):
        checked_times(0)
