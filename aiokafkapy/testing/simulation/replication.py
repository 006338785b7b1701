"""Replication for the dev broker, whose nodes share one log: followers lag, and a leader's crash may lose records.

Appended records count as replicated a little later; only then is the Produce request answered, and only answered
records are safe. ``truncate`` is the election of a leader without the rest of the log: the records are gone, and with
them the partition's memory of their sequences. So acknowledged records are never lost, and all others may be. A
transaction's markers are replicated at once: the records before one are safe.

It hooks into ``controls.on_request``: the broker's own handler is called, and its response held back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...broker import DevBroker
from ...broker.context import RequestContext
from ...broker.handlers import produce
from ...broker.handlers.leadership import find_partition, find_topic
from ...broker.handlers.registry import CLOSE_CONNECTION, NO_RESPONSE, Answer
from ...broker.security.acls import Operation
from ...broker.storage.log import PartitionLog
from ...broker.storage.log_storage import MemoryStorage, Scan, TornWrite
from ...broker.storage.topics import Partition, Topic
from ...errors import KafkaError
from ...protocol.codec import Struct
from ...record.batch import RecordBatch

__all__ = ["Replication", "topic_of"]


@dataclass(eq=False)
class _Held:
    """A response that waits until the followers have reached an offset."""

    future: asyncio.Future[Any]
    answer: Answer
    ends: dict[Partition, int]
    timer: asyncio.TimerHandle | None = None


class Replication:
    """Holds answers back, and knows the records that may be lost."""

    def __init__(self, broker: DevBroker, chance: random.Random, trace: Callable[..., None]) -> None:
        self.delay = (0.0, 0.002)
        self.twice = 0
        self.truncated_records = 0
        self._broker = broker
        self._chance = chance
        self._trace = trace
        self._held: list[_Held] = []
        self._safe: dict[Partition, int] = {}

    def handle_produce(self, context: RequestContext, body: Struct) -> Answer:
        """Append, and answer when the batch is replicated."""
        answer = produce.handle(context, body)
        if self.twice > 0:  # the network, or a proxy in between, delivered the request a second time
            self.twice -= 1
            answer = produce.handle(context, body)
        if answer is NO_RESPONSE or answer is CLOSE_CONNECTION:
            return answer
        held = _Held(context.state.loop.create_future(), answer, self._ends(context, body))
        self._held.append(held)
        held.timer = context.state.loop.call_later(self._chance.uniform(*self.delay), self._replicated, held)
        return held.future

    def close(self) -> None:
        """Stop answering."""
        for held in self._held:
            if held.timer is not None:
                held.timer.cancel()

    def truncate(self, node_id: int) -> None:
        """The node crashes: the partitions that it leads are cut to the offset of the followers."""
        for topic in self._broker.state.topics:
            for partition in topic.partitions:
                if partition.leader == node_id:
                    markers = [batch.base_offset + 1 for batch in _batches(partition.log) if batch.is_control]
                    self._truncate(partition, max([self._safe.get(partition, 0), *markers]))

    # internals

    def _ends(self, context: RequestContext, body: Struct) -> dict[Partition, int]:
        ends: dict[Partition, int] = {}
        for requested in body.topic_data:
            try:
                topic = topic_of(context, requested)
                found = [find_partition(topic, data.index) for data in requested.partition_data]
            except KafkaError:
                continue
            ends |= {partition: partition.log.end_offset for partition in found}
        return ends

    def _replicated(self, held: _Held) -> None:
        if held not in self._held:
            return
        self._held.remove(held)
        for partition, end in held.ends.items():
            self._safe[partition] = max(end, self._safe.get(partition, 0))
        if not held.future.done():
            held.future.set_result(held.answer)

    def _truncate(self, partition: Partition, end: int) -> None:
        old = partition.log
        if old.end_offset <= end:
            return
        storage = _RecoverableStorage([batch for batch in _batches(old) if batch.base_offset < end])
        log = PartitionLog(partition.topic_name, partition.index, old.config, storage)
        assert log.end_offset == end, (log.end_offset, end)
        self.truncated_records += old.end_offset - end
        self._trace("truncated", partition, old.end_offset, end)
        partition.log = log
        for held in self._held:
            if held.ends.get(partition, 0) > end and not held.future.done():
                held.future.cancel()  # its connection ends


class _RecoverableStorage(MemoryStorage):
    """Batches of another log, which the new one recovers as from a disk."""

    __slots__ = ("_kept",)

    def __init__(self, kept: list[RecordBatch]) -> None:
        super().__init__()
        self._kept = kept

    def recover(self, scan: Scan) -> TornWrite | None:
        for batch in self._kept:
            position, segment = self.size, bytes(batch.buffer)
            self.append((segment,), batch.base_offset, batch.size)
            scan(memoryview(segment), position, batch.base_offset)
        return None


def _batches(log: PartitionLog) -> list[RecordBatch]:
    return [batch for segment in log.segments() for batch in segment]


def topic_of(context: RequestContext, requested: object) -> Topic:
    """The topic of a part of a Produce request; raises KafkaError."""
    name, topic_id = getattr(requested, "name", None), getattr(requested, "topic_id", None)
    return find_topic(context, Operation.WRITE, name, topic_id)
