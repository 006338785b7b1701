"""The time at which the next token is asked for, as in Java."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.security.sasl.options import SaslOptions
from aiokafkapy.security.sasl.token_refresh import RefreshPolicy, refresh_at_ms

HOUR = 3_600_000
MINUTE = 60_000
DEFAULT = RefreshPolicy.of(SaslOptions())


@pytest.mark.parametrize(
    ("issued", "expires", "now", "random", "at"),
    [
        (0, HOUR, 0, 0.0, 48 * MINUTE),
        (0, HOUR, 0, 1.0, 51 * MINUTE),
        (0, 24 * HOUR, 0, 0.0, 24 * HOUR * 8 // 10),
        (0, 20 * MINUTE, 0, 0.0, 15 * MINUTE),  # five minutes before its end
        (0, 6 * MINUTE, 0, 0.0, MINUTE),  # as much of the buffer as there is, and a minute from now
        (0, 5 * MINUTE, 0, 0.0, 4 * MINUTE),  # too short for both, which are ignored
        (0, HOUR, 50 * MINUTE, 0.0, 51 * MINUTE),  # no sooner than a minute from now
        (0, HOUR, 59 * MINUTE, 0.5, 59 * MINUTE + int(MINUTE * 0.825)),
        (0, HOUR, 2 * HOUR, 0.5, 2 * HOUR),
    ],
)
def test_the_moment_is_javas(issued: int, expires: int, now: int, random: float, at: int) -> None:
    assert refresh_at_ms(issued, expires, now, random, DEFAULT) == at


@given(
    st.integers(0, 10**13),
    st.integers(0, 10**10),
    st.floats(0, 1),
    st.floats(0.5, 1),
    st.floats(0, 0.25),
    st.integers(0, 900),
    st.integers(0, 3_600),
)
def test_a_refresh_is_never_in_the_past_nor_after_the_end(
    now: int, life: int, random: float, factor: float, jitter: float, period: int, buffer: int
) -> None:
    policy = RefreshPolicy(factor, jitter, period, buffer)
    assert now <= refresh_at_ms(now, now + life, now, random, policy) <= now + life


@pytest.mark.parametrize(
    ("name", "value", "limits"),
    [
        ("window_factor", 0.49, "0.5 to 1.0"),
        ("window_factor", 1.1, "0.5 to 1.0"),
        ("window_jitter", 0.3, "0.0 to 0.25"),
        ("window_jitter", -0.1, "0.0 to 0.25"),
        ("min_period_seconds", 901, "0 to 900"),
        ("buffer_seconds", 3_601, "0 to 3600"),
    ],
)
def test_the_limits_are_kafkas(name: str, value: Any, limits: str) -> None:
    with pytest.raises(ConfigurationError, match=f"sasl_login_refresh_{name}={value} is out of range: write {limits}"):
        replace(DEFAULT, **{name: value})


def test_the_policy_is_that_of_the_options() -> None:
    values: dict[str, Any] = {"window_factor": 0.7, "window_jitter": 0.1, "min_period_seconds": 1, "buffer_seconds": 2}
    assert {field.name for field in fields(RefreshPolicy)} == set(values)
    options = SaslOptions(**{f"sasl_login_refresh_{name}": value for name, value in values.items()})
    assert RefreshPolicy.of(options) == RefreshPolicy(**values)
    assert RefreshPolicy(0.8, 0.05, 60, 300) == DEFAULT
