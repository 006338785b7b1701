"""Options of the producer that contradict one another, and their remedies.

Owns the words of some of these conflicts; ``config`` raises them, and has the others. Kafka's counterpart is
``ProducerConfig.postProcessAndValidateIdempotenceConfigs``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from .option_values import AUTO_IN_FLIGHT

__all__ = [
    "IDEMPOTENCE_OPTIONS",
    "MAX_IN_FLIGHT_FOR_IDEMPOTENCE",
    "as_int",
    "conflict_of_auto",
    "conflict_of_priority",
    "conflict_of_taking_back",
    "idempotence_conflict",
]

MAX_IN_FLIGHT_FOR_IDEMPOTENCE: Final = 5
"""Brokers remember five batches per producer and partition."""
IDEMPOTENCE_OPTIONS: Final = ("acks", "retries", "max_in_flight_requests_per_connection")


def idempotence_conflict(values: Mapping[str, object]) -> str | None:
    """The value that contradicts idempotence, with the remedy; None without one."""
    acks = values.get("acks", "all")
    if acks in (0, 1):
        return f"acks={acks}: write acks='all'"
    if as_int(values.get("retries")) == 0:
        return "retries=0: leave retries out"
    in_flight = as_int(values.get("max_in_flight_requests_per_connection"))
    if in_flight is not None and in_flight > MAX_IN_FLIGHT_FOR_IDEMPOTENCE:
        return f"max_in_flight_requests_per_connection={in_flight}: write {MAX_IN_FLIGHT_FOR_IDEMPOTENCE} or less"
    return None


def conflict_of_auto(acks: object, in_flight: object) -> str | None:
    """Why requests in flight cannot adapt; None if they can, or are not to."""
    if acks == 0 and in_flight == AUTO_IN_FLIGHT:
        return (
            "max_in_flight_requests_per_connection='auto' contradicts acks=0: there are no answers whose time could be "
            "measured; write a number"
        )
    return None


def conflict_of_priority(given_percent: int | None, topics: Collection[str]) -> str | None:
    """Why the share for these topics with priority has no effect; None if it has, or none was given."""
    if given_percent is not None and not topics:
        return (
            f"priority_reserve_percent={given_percent} has no effect without a topic that has "
            "priority: write topics={'alerts': TopicOptions(priority='high')}"
        )
    return None


def conflict_of_taking_back(takes_back: bool, *, is_gapless: bool) -> str | None:
    """Why a cancelled call may not take its records back; None if it may, or is not to."""
    if takes_back and is_gapless:
        return (
            "cancel_takes_back=True contradicts enable_gapless_guarantee=True: records taken back would leave gaps; "
            "leave one of the two out"
        )
    return None


def as_int(value: Any) -> int | None:
    """An option's value as it will be read; None when it is missing, or is no number (which is reported elsewhere)."""
    try:
        return None if value is None or isinstance(value, bool) else int(value)
    except (TypeError, ValueError, OverflowError):
        return None
