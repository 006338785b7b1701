from __future__ import annotations

import logging

import pytest

from aiokafkapy.observability import RateLimitedLogger, get_logger, rate_limit


@pytest.fixture
def limited(caplog: pytest.LogCaptureFixture) -> RateLimitedLogger:
    caplog.set_level(logging.DEBUG, "aiokafkapy")
    return RateLimitedLogger(get_logger("aiokafkapy.x"))


def test_about_ten_lines_a_minute_for_each_key(limited: RateLimitedLogger) -> None:
    for key in ("a", "b"):
        shown = sum(limited.log(key, tick / 100, logging.WARNING, "e") for tick in range(6_000))
        assert 8 <= shown <= 11
    shown = sum(limited.log("a", 60 + tick / 10, logging.WARNING, "e") for tick in range(36_000))
    assert 400 <= shown <= 650


def test_the_next_line_says_how_many_were_kept_back(
    limited: RateLimitedLogger, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10):
        limited.log("a", 0.0, logging.WARNING, "e")
    assert limited.log("a", 8.0, logging.WARNING, "e")
    assert caplog.records[-1].fields == {"suppressed": 7}  # type: ignore[attr-defined]
    assert limited.settle("a") == 0


def test_a_settled_key_starts_again(limited: RateLimitedLogger) -> None:
    for _ in range(5):
        limited.log("a", 0.0, logging.WARNING, "e")
    assert limited.settle("a") == 2
    assert limited.settle("a") is None
    assert limited.log("a", 0.0, logging.WARNING, "e")


def test_a_limited_logger_forgets_the_keys_silent_for_longest(
    limited: RateLimitedLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limit, "_MAX_KEYS", 3)
    for key in range(5):
        limited.log(key, 0.0, logging.DEBUG, "e")
        limited.log(0, 0.0, logging.DEBUG, "e")
    assert len(limited._budgets) == 3
    assert limited.settle(1) is None
    assert (limited.settle(0) or 0) > 0
