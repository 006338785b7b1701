"""Calls whose record has a time of its own: ``delivery_timeout_ms``, and the time of the ``deadline()`` around them.

Owns the time that such a record has, and the refusal of one that has no time left. It knows no timers:
``RecordDeadlines`` has the records. Kafka has one ``delivery.timeout.ms`` for all records.

Rule: with ``enable_gapless_guarantee`` a record has no time of its own, because those after it would fail with it.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from ...errors import DeliveryTimeoutError, IllegalStateError
from ..arguments import milliseconds_of
from ..deliveries.delivery import Delivery
from .pending_record import GivenRecord, PendingRecord
from .record_deadlines import RecordDeadlines, enclosing_deadline

if TYPE_CHECKING:
    from .record_intake import RecordIntake

__all__ = ["accept_by_deadline", "accept_until", "accept_within", "enclosing_end"]


def accept_within(intake: RecordIntake, given: GivenRecord, delivery_timeout_ms: object) -> Delivery | PendingRecord:
    """As ``RecordIntake.accept``, for a record that must have its outcome within ``delivery_timeout_ms``.

    Raises for a wrong time as for any wrong argument, and IllegalStateError with ``enable_gapless_guarantee``.
    """
    seconds = milliseconds_of(given.topic, "delivery_timeout_ms", delivery_timeout_ms) / 1000
    runtime = intake.accepting_runtime()
    if runtime.config.enable_gapless_guarantee:
        raise IllegalStateError(
            "with enable_gapless_guarantee a record has no delivery_timeout_ms of its own: those behind it, which have "
            "time left, would fail with it"
        )
    own = runtime.now() + seconds
    return _ending_at(runtime.deadlines, intake.accept(*given), own, own)


def accept_by_deadline(
    intake: RecordIntake, given: GivenRecord, delivery_timeout_ms: object
) -> Delivery | PendingRecord:
    """As ``accept_within``, with the time of the enclosing ``deadline()`` when that is the shorter one.

    Raises DeliveryTimeoutError when that is over. With ``enable_gapless_guarantee`` the deadline does not limit the
    record.
    """
    outer = enclosing_deadline.get()
    runtime = intake.accepting_runtime()
    ends_at = math.inf if outer is None else outer.ends_at(runtime.loop)
    accepted = accept_until(intake, given, delivery_timeout_ms, ends_at)
    if outer is not None and ends_at < math.inf:
        outer.watched_by(runtime.deadlines)
    return accepted


def accept_until(
    intake: RecordIntake, given: GivenRecord, delivery_timeout_ms: object, ends_at: float
) -> Delivery | PendingRecord:
    """As ``accept_by_deadline``, with the end of the enclosing one, ``ends_at``, in the time of the intake's loop."""
    if ends_at < math.inf and intake.accepting_runtime().config.enable_gapless_guarantee:
        ends_at = math.inf  # those behind it, which have time left, would fail with it
    if ends_at == math.inf:
        if delivery_timeout_ms is None:
            return intake.accept(*given)
        return accept_within(intake, given, delivery_timeout_ms)
    runtime = intake.accepting_runtime()
    now = runtime.now()
    own = math.inf
    if delivery_timeout_ms is not None:
        own = now + milliseconds_of(given.topic, "delivery_timeout_ms", delivery_timeout_ms) / 1000
    deadline = min(ends_at, own)
    if deadline <= now:
        error = _too_late(given.topic)
        runtime.admission.on_refusal(error)
        raise error
    return _ending_at(runtime.deadlines, intake.accept(*given), deadline, own)


def enclosing_end(topic: object, loop: asyncio.AbstractEventLoop) -> float:
    """The end of the enclosing ``deadline()``, in the time of ``loop``, for a record that crosses to it from another
    thread; infinity without one. Raises DeliveryTimeoutError if it is already over.
    """
    outer = enclosing_deadline.get()
    ends_at = math.inf if outer is None else outer.ends_at(loop)
    if ends_at <= loop.time():
        raise _too_late(topic)
    return ends_at


# internals


def _ending_at(
    deadlines: RecordDeadlines, accepted: Delivery | PendingRecord, deadline: float, own: float
) -> Delivery | PendingRecord:
    """The record, whose time now ends at ``deadline``: its ``own``, or that of the block around the call."""
    if isinstance(accepted, PendingRecord):
        accepted.own_deadline = deadline
    deadlines.add(accepted, deadline, enclosing_deadline.get() if deadline < own else None, own)
    return accepted


def _too_late(topic: object) -> DeliveryTimeoutError:
    name = topic if isinstance(topic, str) else None
    return DeliveryTimeoutError(f"topic {name!r}: the deadline() of this call is over: not sent", topic=name)
