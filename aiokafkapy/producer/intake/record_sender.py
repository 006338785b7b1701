"""``RecordSender``: the producer's calls that do not wait for an answer, ``enqueue`` and ``send_nowait``.

It knows the producer's intake, and not what becomes of a record. It is a class of its own because it is compiled: from
the arguments by name to the intake took the interpreter longer than the intake takes. ``send`` is not here, for it is
given to others to run (tasks, task groups, background tasks of web frameworks), who may ask of a coroutine what only
Python's own can tell. Kafka's counterpart is ``KafkaProducer.send``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic

from ...errors import KafkaError
from ..deliveries.delivery import Delivery
from ..records import HeadersLike, Timestamp
from .pending_record import PendingRecord
from .record_intake import RecordIntake

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

__all__ = ["K", "RecordSender", "V"]

YIELD_AFTER: Final = 256 * 1024
"""Bytes accepted by ``enqueue`` before it lets others run, so that a tight loop starves nobody."""


class RecordSender(Generic[K, V]):
    """Half of ``KafkaProducer``, which says what it needs of the other."""

    __slots__ = ("_intake",)

    _intake: RecordIntake

    @cython.locals(intake=RecordIntake)
    async def enqueue(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
    ) -> Delivery:
        """As ``send``, but wait only until the record is accepted; await the returned delivery for its outcome.

        Waits for room, metadata and an async serializer, ``max_block_ms`` at most, and lets others run now and then.
        """
        intake = self._intake
        accepted = intake.accept(topic, value, key, partition, timestamp_ms, headers)
        if type(accepted) is not Delivery:
            accepted = await self._admitted(accepted)
        if intake.unyielded > YIELD_AFTER:
            intake.unyielded = 0
            await asyncio.sleep(0)
        return accepted

    @cython.locals(intake=RecordIntake)
    def send_nowait(
        self,
        topic: str,
        value: V | None = None,
        *,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
    ) -> Delivery:
        """As ``enqueue``, but never wait: raises BufferExhaustedError when there is no room, MetadataNotReadyError when
        the topic is not known yet (await ``partitions_for(topic)`` first), IllegalStateError with an async serializer.
        """
        intake = self._intake
        delivery: Delivery | None = intake.accept(  # type: ignore[assignment]  # no PendingRecord: it may not wait
            topic, value, key, partition, timestamp_ms, headers, False
        )
        if delivery is None:
            raise self._why_unusable()
        return delivery

    # --- of the other half ---

    async def _admitted(self, record: PendingRecord | Delivery | None) -> Delivery:
        """Wait until a record is accepted."""
        raise NotImplementedError

    def _why_unusable(self) -> KafkaError:
        raise NotImplementedError
