"""An accumulator on a virtual clock, and the Sender's replacement in its tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from aiokafkapy.common import ExponentialBackoff, TopicPartition
from aiokafkapy.producer.accumulator.producer_batch import ProducerBatch
from aiokafkapy.producer.accumulator.record_accumulator import ReadyCheckResult, RecordAccumulator
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.deliveries.delivery import Delivery
from aiokafkapy.producer.identity.transaction_manager import TransactionManager
from aiokafkapy.record.batch import RecordBatch
from aiokafkapy.record.builder import RecordBatchBuilder

from .sender_fakes import cluster_of

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
KIB = 1024
LARGE = b"x" * (32 * KIB + 1000)
"""Bytes; more than any codec compresses on the loop."""


def ready_manager() -> TransactionManager:
    """A transaction manager that has its producer id."""
    manager = TransactionManager(ExponentialBackoff(0.1, 1.0, jitter=0))
    manager.handle_init_producer_id_sent()
    manager.handle_init_producer_id(7, 0)
    return manager


def batch_of(*values: Any, limit: int = 16 * KIB, **options: Any) -> tuple[ProducerBatch, list[Delivery]]:
    """A batch of these values, and their deliveries."""
    batch = ProducerBatch(T0, RecordBatchBuilder(limit), 10.0, **options)
    deliveries = []
    for number, value in enumerate(values):
        delivery = batch.try_append(1000 + number, b"k%d" % number, value, (("h", b"%d" % number),))
        assert delivery is not None
        deliveries.append(delivery)
    return batch, deliveries


def parsed(batch: ProducerBatch) -> RecordBatch:
    """The records for a broker."""
    found = RecordBatch(memoryview(wire_bytes(batch)))
    found.validate()
    return found


@dataclass(eq=False)
class Waiter:
    """A record that waits for memory, with a number for its test."""

    value: Any
    partition: int | None = 0
    number: int = 0
    topic: str = "t"
    timestamp_ms: int = 1
    key: Any = None
    headers: Any = None


class Harness:
    """An accumulator; topic ``t`` has two partitions on node 1 unless told otherwise."""

    def __init__(
        self,
        leaders: dict[str, Sequence[int]] | None = None,
        *,
        idempotent: bool = False,
        **options: Any,
    ) -> None:
        options = {"linger_ms": 0, "retry_backoff_ms": 100, "retry_backoff_max_ms": 1000} | options
        # Some values tested here would be refused by ProducerConfig.
        memory = options.pop("buffer_memory", 32 * KIB * KIB)
        self.config = ProducerConfig(bootstrap_servers="h:1", **options).model_copy(update={"buffer_memory": memory})
        self.manager = ready_manager() if idempotent else None
        self.accumulator = RecordAccumulator(self.config, self.manager)
        self.cluster = cluster_of(leaders or {"t": [1, 1]})
        self.now = 1000.0
        self.in_flight: dict[int, int] = {}
        self.wakeups = 0
        self.accumulator.wakeup = self._on_wakeup

    @property
    def held(self) -> int:
        """Bytes of the buffer that batches hold."""
        return self.accumulator.buffered_bytes

    def _on_wakeup(self) -> None:
        self.wakeups += 1

    def append(
        self,
        value: Any = b"x",
        partition: int = 0,
        *,
        key: Any = None,
        headers: Any = None,
        topic: str = "t",
        at: int = 1,
    ) -> Delivery | None:
        return self.accumulator.appender.append(topic, partition, at, key, value, headers, self.now, self.cluster)

    def append_ok(self, value: Any = b"x", partition: int = 0, **fields: Any) -> Delivery:
        delivery = self.append(value, partition, **fields)
        assert delivery is not None
        return delivery

    def ready(self) -> ReadyCheckResult:
        return self.accumulator.ready(self.cluster, self.now, self.in_flight)

    def drain(self, *node_ids: int, size: int = 1024 * KIB) -> list[ProducerBatch]:
        """The batches that go to these nodes (1 if none is named) in one round."""
        drained = self.accumulator.drain(self.cluster, node_ids or (1,), size, self.now)
        return [batch for batches in drained.values() for batch in batches]

    def drain_all(self, *node_ids: int) -> list[ProducerBatch]:
        """The batches of all rounds, until none is left."""
        drained: list[ProducerBatch] = []
        while batches := self.drain(*node_ids):
            drained += batches
        return drained

    def prime(self, *partitions: int) -> None:
        """Have the first batch of these partitions (0 if none is named), of one record, acknowledged.

        An idempotent producer has several in flight in a partition only from then on.
        """
        for partition in partitions or (0,):
            self.append_ok(b"first", partition)
        for batch in self.drain():
            self.complete(batch)

    def complete(self, batch: ProducerBatch, base_offset: int = 0) -> None:
        """The broker took ``batch``."""
        if self.manager is not None:
            self.manager.handle_completed_batch(batch, base_offset)
        batch.complete(base_offset)
        self.accumulator.deallocate(batch)

    def fail(self, batch: ProducerBatch, error: BaseException | None = None) -> None:
        """``batch`` is given up."""
        if self.manager is not None:
            self.manager.remove_in_flight_batch(batch)
        batch.fail(error or ValueError("refused"))
        self.accumulator.deallocate(batch)

    def check(self) -> None:
        """Check the invariants."""
        accumulator = self.accumulator
        assert accumulator.accepted == accumulator.delivered + accumulator.failed + accumulator.pending
        held = sum(batch.memory + batch.reserved_memory for batch in accumulator.incomplete)
        assert self.held == held
        for batch in accumulator.incomplete:
            assert batch.memory == batch.builder.capacity
        assert self.held >= 0
        if self.config.buffer_records is not None:
            assert accumulator.pending <= self.config.buffer_records


def values_of(batch: ProducerBatch) -> list[Any]:
    """The values in a batch, in their order."""
    return [value for _, _, value, _ in batch.builder.records()]


def wire_bytes(batch: ProducerBatch) -> bytes:
    """The batch as it goes to the broker."""
    return b"".join(bytes(piece) for piece in batch.buffers())


class Waiters:
    """Records that wait for memory, and their outcomes."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.appender = harness.accumulator.appender
        self.records: dict[int, Waiter] = {}
        self.granted: list[int] = []
        self.deliveries: dict[int, Delivery] = {}
        self.failed: dict[int, BaseException] = {}
        harness.accumulator.on_room = self.on_room

    def add(self, number: int, value: Any = b"x", partition: int | None = 0) -> Waiter:
        record = self.records[number] = Waiter(value, partition, number)
        delivery = self.appender.append_or_wait(record, self.harness.now, self.harness.cluster)
        if delivery is not None:
            self.granted.append(number)
            self.deliveries[number] = delivery
        return record

    def leave(self, record: Waiter) -> bool:
        found = self.appender.leave(record)
        self.on_room()
        return found

    def on_room(self) -> None:
        for record, outcome in cast(list[tuple[Waiter, Any]], self.appender.grant(self.harness.now)):
            if isinstance(outcome, Delivery):
                self.granted.append(record.number)
                self.deliveries[record.number] = outcome
            else:
                self.failed[record.number] = outcome


def full_harness(**options: Any) -> Harness:
    """No room for another kilobyte: a pool of 8 KiB with batches of one record each."""
    harness = Harness(**({"buffer_memory": 8 * KIB, "batch_size": 1000} | options))
    while harness.append(b"x" * 1500) is not None:
        pass
    return harness
