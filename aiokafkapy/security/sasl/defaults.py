"""Kafka's defaults of SASL's options (``SaslConfigs``), and its limits for the refresh of tokens.

They are here, and not with the options, because the configurations of clients and of the dev broker have them too, and
are imported without SASL.
Options that are not named here have no default.
"""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

__all__ = [
    "ASSERTION_ALGORITHM",
    "ASSERTION_EXP_SECONDS",
    "ASSERTION_NBF_SECONDS",
    "CLOCK_SKEW_SECONDS",
    "KERBEROS_RULES",
    "KERBEROS_SERVICE_NAME",
    "REFRESH_BUFFER_SECONDS",
    "REFRESH_MIN_PERIOD_SECONDS",
    "REFRESH_WINDOW_FACTOR",
    "REFRESH_WINDOW_JITTER",
    "RETRY_BACKOFF_MAX_MS",
    "RETRY_BACKOFF_MS",
    "SCOPE_CLAIM_NAME",
    "SUB_CLAIM_NAME",
    "Limited",
]


NumberT = TypeVar("NumberT", int, float)


class Limited(NamedTuple, Generic[NumberT]):
    """The default of a number, and its limits."""

    default: NumberT
    low: NumberT
    high: NumberT


REFRESH_WINDOW_FACTOR: Final = Limited(0.8, 0.5, 1.0)
REFRESH_WINDOW_JITTER: Final = Limited(0.05, 0.0, 0.25)
REFRESH_MIN_PERIOD_SECONDS: Final = Limited(60, 0, 900)
REFRESH_BUFFER_SECONDS: Final = Limited(300, 0, 3_600)

RETRY_BACKOFF_MS: Final = 100
RETRY_BACKOFF_MAX_MS: Final = 10_000

KERBEROS_SERVICE_NAME: Final = "kafka"
"""Kafka has no default."""
KERBEROS_RULES: Final = ("DEFAULT",)

CLOCK_SKEW_SECONDS: Final = 30
SCOPE_CLAIM_NAME: Final = "scope"
SUB_CLAIM_NAME: Final = "sub"

ASSERTION_ALGORITHM: Final = "RS256"
ASSERTION_EXP_SECONDS: Final = 300
ASSERTION_NBF_SECONDS: Final = 60
