"""Decides when a token is asked for again: before its end, and not at the same time as in all the rest of a fleet.

Knows no token and no clock: times are milliseconds since the epoch. Kafka's
counterparts are ``ExpiringCredentialRefreshingLogin.refreshMs`` and ``ExpiringCredentialRefreshConfig``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...errors import ConfigurationError
from . import defaults
from .options import SaslOptions

__all__ = ["RETRY_AFTER_MS", "RefreshPolicy", "refresh_at_ms"]

RETRY_AFTER_MS: Final = 10_000
"""The pause after a refresh that failed, as in Java: the old token is still good for a while."""


@dataclass(frozen=True, slots=True)
class RefreshPolicy:
    """Kafka's ``sasl_login_refresh_*``; raises ConfigurationError for a value that Kafka would refuse."""

    window_factor: float
    window_jitter: float
    min_period_seconds: int
    buffer_seconds: int

    def __post_init__(self) -> None:
        for name, (_, low, high) in (
            ("window_factor", defaults.REFRESH_WINDOW_FACTOR),
            ("window_jitter", defaults.REFRESH_WINDOW_JITTER),
            ("min_period_seconds", defaults.REFRESH_MIN_PERIOD_SECONDS),
            ("buffer_seconds", defaults.REFRESH_BUFFER_SECONDS),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigurationError(f"sasl_login_refresh_{name}={value!r} is out of range: write {low} to {high}")

    @classmethod
    def of(cls, options: SaslOptions) -> RefreshPolicy:
        """The policy of some options."""
        return cls(
            options.sasl_login_refresh_window_factor,
            options.sasl_login_refresh_window_jitter,
            options.sasl_login_refresh_min_period_seconds,
            options.sasl_login_refresh_buffer_seconds,
        )


def refresh_at_ms(issued_at_ms: int, expires_at_ms: int, now_ms: int, random: float, policy: RefreshPolicy) -> int:
    """The time to ask for the next token; ``random`` is from 0 to 1.

    At ``window_factor`` of its life, plus jitter, but no later than ``buffer_seconds`` before its end and no sooner
    than ``min_period_seconds`` from now. Both limits are ignored for a token that is too short-lived for
    them.
    """
    share = min(policy.window_factor + policy.window_jitter * random, 1.0)
    if now_ms + 1_000 * (policy.min_period_seconds + policy.buffer_seconds) > expires_at_ms:
        return now_ms + int(max(expires_at_ms - now_ms, 0) * share)
    proposed = issued_at_ms + int((expires_at_ms - issued_at_ms) * share)
    latest = expires_at_ms - 1_000 * policy.buffer_seconds
    return max(min(proposed, latest), now_ms + 1_000 * policy.min_period_seconds)
