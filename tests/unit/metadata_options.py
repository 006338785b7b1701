"""The defaults of the options that metadata takes, for tests to which their values do not matter."""

from __future__ import annotations

from typing import Final, TypedDict

__all__ = ["METADATA_OPTIONS", "PRODUCER_METADATA_OPTIONS"]


class _Options(TypedDict):
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int


class _ProducerOptions(_Options):
    metadata_max_idle_ms: int
    allow_auto_topic_creation: bool


METADATA_OPTIONS: Final[_Options] = {
    "retry_backoff_ms": 100,
    "retry_backoff_max_ms": 1_000,
    "metadata_max_age_ms": 300_000,
}
PRODUCER_METADATA_OPTIONS: Final[_ProducerOptions] = {
    **METADATA_OPTIONS,
    "metadata_max_idle_ms": 300_000,
    "allow_auto_topic_creation": True,
}
