"""``PendingRecord``: one record on its way in, and the future of its Delivery.

Owns the record's parts and its future. It knows neither metadata nor memory: ``Admission`` keeps it in line. Java has
no counterpart: there the calling thread waits.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, NamedTuple, Protocol

from ...common import Headers
from ...errors import KafkaError
from ..deliveries.delivery import Delivery
from ..records import Unchecked

__all__ = ["GivenRecord", "PendingRecord", "RecordLine"]


class GivenRecord(NamedTuple):
    """A record as its call gives it, in the order of ``RecordIntake.accept``: nothing is checked yet, and no iterator
    of headers is read, as ``ProducerRecord`` would.
    """

    topic: Unchecked
    value: Unchecked = None
    key: Unchecked = None
    partition: Unchecked = None
    timestamp_ms: Unchecked = None
    headers: Unchecked = None


class RecordLine(Protocol):
    """The place where a record waits: ``Admission``."""

    def enter(self, record: PendingRecord, now: float) -> None:
        """The record takes its place."""

    def append_at_once(self, record: PendingRecord) -> Delivery | None:
        """Accept the record here and now, if its topic's policy lets it."""

    def why_not_at_once(self, record: PendingRecord) -> KafkaError:
        """The error that names the condition that the record would have to wait for."""

    def proceed(self, record: PendingRecord, now: float) -> None:
        """The record has been serialized."""

    def refuse(self, record: PendingRecord, error: BaseException) -> None:
        """The record cannot be sent."""

    def expire(self, record: PendingRecord) -> None:
        """The record's time is over."""

    def on_cancelled(self, record: PendingRecord) -> None:
        """The record was taken back."""


class PendingRecord(asyncio.Future[Delivery]):
    """A record that may have to wait: first in its topic's queue, then in the accumulator's line for room.

    ``partition`` is None until one is chosen, which happens once; -1 is the sticky one. Cancelling the record, as
    cancelling a task that awaits it does, takes it back in the same step: it can no longer be sent.
    """

    def __init__(
        self,
        admission: RecordLine,
        topic: str,
        key: Unchecked,
        value: Unchecked,
        partition: int | None,
        timestamp_ms: int,
        headers: Headers | None,
        *,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(loop=loop)
        self.admission = admission
        # The record; ``original`` is its key and value as the caller gave them
        self.topic = topic
        self.key = key
        self.value = value
        self.partition = partition
        self.timestamp_ms = timestamp_ms
        self.headers = headers
        self.original: tuple[Unchecked, Unchecked] = (key, value)
        # Its wait
        self.is_serialized = True
        self.deadline = 0.0
        # The times since which it waits for its topic's metadata, and for room; None when it does not wait
        self.metadata_since: float | None = None
        self.room_since: float | None = None
        # The end of the time that its call gave it, in loop time
        self.own_deadline = math.inf
        # The call's own overflow policy; without one the topic's holds
        self.overflow: str | None = None

    @property
    def delivery(self) -> Delivery | None:
        """The record's Delivery; None while it waits, and when it was refused or taken back."""
        if not self.done() or self.cancelled() or self.exception() is not None:
            return None
        return self.result()

    def cancel(self, msg: Any | None = None) -> bool:
        """Take the record back; False when it was accepted or refused already."""
        if not super().cancel(msg):
            return False
        self.forget_data()
        self.admission.on_cancelled(self)
        return True

    def accept(self, delivery: Delivery) -> None:
        """The accumulator took the record."""
        self.forget_data()
        if not self.done():
            self.set_result(delivery)

    def refuse(self, error: BaseException) -> None:
        """The record will not be sent."""
        self.forget_data()
        if not self.done():
            self.set_exception(error)
            self.exception()  # its caller may be gone; then asyncio need not report the error

    def forget_data(self) -> None:
        """Release the record's data: it is in a batch, or will never be."""
        self.key = self.value = self.headers = None
        self.original = (None, None)
