"""``RecordSender``: the calls that send a record and do not wait for its outcome, ``enqueue`` and ``send_nowait``.

Owns the fate of a record that cannot be appended at once: it waits, or is refused. It knows the intake, and neither
the producer's life nor a record's outcome. Kafka's counterpart is ``KafkaProducer.send``.

It is compiled: interpreted, the passing of keyword arguments to the intake took longer than the intake itself. ``send``
is not here, because its coroutine is given to tasks, task groups and web frameworks, which may need the attributes that
only Python's own coroutines have.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic, cast

from ...errors import IllegalStateError, KafkaError
from ..deliveries.delivery import Delivery
from ..records import CallOverflow, HeadersLike, Timestamp
from ..serializers import discard
from .async_serializers import finish_serializing
from .call_overflow import accept_specially
from .cancelled_calls import tell_deliveries
from .pending_record import GivenRecord, PendingRecord
from .record_deadlines import open_deadlines
from .record_intake import IntakeHolder, RecordIntake
from .short_calls import shorten

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from ... import _form as cython

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    try:
        import cython
    except ImportError:  # interpreted, where there is no Cython
        from ... import _form as cython

    K = TypeVar("K")
    V = TypeVar("V")

__all__ = ["IntakeHolder", "K", "RecordSender", "V", "admitted", "admitted_at_once", "not_admitted"]

YIELD_AFTER: Final = 256 * 1024
"""Bytes accepted by ``enqueue`` before it lets others run, so that a tight loop starves no other task."""

_open_deadlines = open_deadlines
"""Has a C type in the compiled form."""


class RecordSender(IntakeHolder, Generic[K, V]):
    """Takes records, one per call, on the event loop that its intake is bound to."""

    __slots__ = ()

    @cython.locals(self=IntakeHolder, intake=RecordIntake)
    async def enqueue(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
        delivery_timeout_ms: int | None = None,
        overflow: CallOverflow | None = None,
    ) -> Delivery:
        """Like ``send``, but wait only until the record is accepted; await the returned delivery for the outcome.

        Waits for room, metadata and an async serializer, ``max_block_ms`` at most, and lets others run now and then.
        If ``overflow``, the topic's or this call's own, drops the record, the delivery has failed.

        Raises those errors of ``send`` that come before the record is accepted: for wrong arguments,
        MetadataTimeoutError, BufferExhaustedError; the delivery raises the others. Cancelling the call before the
        record is accepted withdraws it, afterwards it is still sent: ``deliveries`` of the CancelledError has it.
        """
        intake = self._intake
        if delivery_timeout_ms is None and overflow is None and not _open_deadlines:
            accepted = intake.accept(topic, value, key, partition, timestamp_ms, headers)
        else:
            given = GivenRecord(topic, value, key, partition, timestamp_ms, headers)
            accepted = accept_specially(intake, given, delivery_timeout_ms, overflow)
        if type(accepted) is not Delivery or intake.unyielded > YIELD_AFTER:
            accepted = await _finish(intake, accepted)
        return accepted

    @cython.locals(self=IntakeHolder, intake=RecordIntake)
    def _accept(
        self,
        topic: object,
        value: object,
        key: object,
        partition: object,
        timestamp_ms: object,
        headers: object,
        delivery_timeout_ms: object,
        overflow: object,
        /,
    ) -> Delivery | PendingRecord:
        """For ``send``: one call of compiled code, which saves ``send`` the look-ups of the intake and of deadlines.
        Its arguments are positional only, so that compiled code need not look for names.
        """
        intake = self._intake
        if delivery_timeout_ms is None and overflow is None and not _open_deadlines:
            return intake.accept(topic, value, key, partition, timestamp_ms, headers)
        given = GivenRecord(topic, value, key, partition, timestamp_ms, headers)
        return accept_specially(intake, given, delivery_timeout_ms, overflow)

    @cython.locals(self=IntakeHolder, intake=RecordIntake)
    def send_nowait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
        delivery_timeout_ms: int | None = None,
        overflow: CallOverflow | None = None,
    ) -> Delivery:
        """As ``enqueue``, but never wait: raises BufferExhaustedError when there is no room, MetadataNotReadyError
        when the topic is not known yet (await ``partitions_for(topic)`` first), IllegalStateError with an async
        serializer, and the errors of ``send`` for wrong arguments. If ``overflow``, the topic's or this call's own,
        drops records, one is dropped instead of raising.
        """
        intake = self._intake
        if delivery_timeout_ms is None and overflow is None and not _open_deadlines:
            accepted = intake.accept(topic, value, key, partition, timestamp_ms, headers)
        else:
            given = GivenRecord(topic, value, key, partition, timestamp_ms, headers)
            accepted = accept_specially(intake, given, delivery_timeout_ms, overflow)
        if type(accepted) is not Delivery:
            accepted = admitted_at_once(cast(PendingRecord, accepted))
        return accepted


async def admitted(record: PendingRecord) -> Delivery:
    """Give a record its place in line and wait until it is accepted, awaiting its serializers in the caller's task."""
    record.admission.enter(record, record.get_loop().time())
    if not record.is_serialized:
        await finish_serializing(record)
    return await record


async def _finish(intake: RecordIntake, accepted: Delivery | PendingRecord) -> Delivery:
    """The part of an ``enqueue`` that waits: until the record is accepted, and for others to have their turn."""
    try:
        delivery = await admitted(accepted) if isinstance(accepted, PendingRecord) else accepted
        if intake.unyielded > YIELD_AFTER:
            intake.unyielded = 0
            await asyncio.sleep(0)
    except asyncio.CancelledError as cancelled:
        tell_deliveries(cancelled, (accepted,))
        raise
    return delivery


def admitted_at_once(record: PendingRecord) -> Delivery:
    """Have a record accepted that must not wait, if its topic drops records for want of room; else raise the error."""
    try:
        delivery = record.admission.append_at_once(record)
    except KafkaError as error:
        record.refuse(error.fresh())
        raise
    if delivery is None:
        raise not_admitted(record)
    record.accept(delivery)
    return delivery


def not_admitted(record: PendingRecord) -> KafkaError:
    """Refuse a record that has no place in line; returns the error that names the missing condition."""
    error: KafkaError
    if record.is_serialized:
        error = record.admission.why_not_at_once(record)
    else:
        discard(record.key, record.value)
        error = IllegalStateError("send_nowait() cannot wait for an async serializer: await enqueue() or send()")
    record.refuse(error.fresh())  # a copy: the raised error has a traceback, and its frames have the record
    return error


shorten(RecordSender.enqueue, _finish, YIELD_AFTER, RecordSender.send_nowait, admitted_at_once, RecordSender._accept)
