"""Defaults are within their limits; the tests of the options compare them with Kafka's."""

from __future__ import annotations

import pytest

from aiokafkapy.security.sasl import defaults
from aiokafkapy.security.sasl.defaults import Limited

LIMITED = [name for name in defaults.__all__ if isinstance(getattr(defaults, name), Limited)]


@pytest.mark.parametrize("name", LIMITED)
def test_a_default_is_within_its_limits(name: str) -> None:
    default, low, high = getattr(defaults, name)
    assert low <= default <= high


def test_the_four_numbers_of_a_refresh_have_limits() -> None:
    assert len(LIMITED) == 4
    assert all(name.startswith("REFRESH_") for name in LIMITED)
