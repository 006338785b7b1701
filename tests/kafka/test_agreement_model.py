"""Random conversations with the dev broker and with real Kafka at once: each request goes to both, and the answers must
agree in all that clients act upon.

One state machine of Hypothesis draws records, plain, idempotent and transactional, reads, offsets, deletions, commits
of groups, and mistakes: sequences and epochs that are old, early or strange, offsets out of range, partitions that do
not exist. It knows only enough of a topic to draw requests worth making; Kafka says which answer is right.

Rules: random values are not compared, or only by their position: producer ids, topic names, the order of partitions in
an answer. A broker that says "not yet" is asked again. A difference is mended in the dev broker, or listed here:

- Kafka's offset of the youngest record (-3) may be one that was deleted, which no consumer can read; ours never is.
- While Kafka asks the coordinator whether a partition is in the transaction, it remembers the batch's sequence, and
  then takes none above it until one is appended (KIP-890), also when the answer was no or the batch a duplicate. Ours
  knows the answer without asking.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from aiokafkapy.broker import DevBroker
from aiokafkapy.common import Node
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.batch import RecordBatch, iter_batches
from aiokafkapy.testing import ApacheKafka
from tests.kafka import agreement
from tests.raw_client import RawClient

T = TypeVar("T")

PARTITIONS: Final = 2
PRODUCERS: Final = 2
BASE_MS: Final = agreement.NOW_MS
FAR_FUTURE_MS: Final = 32_503_680_000_000
MAX_TIMESTAMP: Final = -3
NOT_YET: Final = agreement.COORDINATOR_ERRORS | {19, 51}
"""These codes include a transaction whose end is still being written; and not enough replicas, as Kafka tells a
producer to which its coordinator has given one of the others.
"""
PATIENCE: Final = 30.0

partitions = st.integers(0, PARTITIONS - 1) | st.just(PARTITIONS)  # the last one does not exist
timestamps = st.integers(BASE_MS, BASE_MS + 5) | st.sampled_from([-1, 0, FAR_FUTURE_MS])
values = st.lists(st.binary(max_size=8), min_size=1, max_size=4)


@dataclass
class Identity:
    """A producer as one of the brokers knows it."""

    id: int = -1
    epoch: int = -1


@dataclass
class Side:
    """One of the brokers: the connection to it, and the producers that it named."""

    client: RawClient
    producers: list[Identity] = field(default_factory=list)
    transactional: Identity = field(default_factory=Identity)

    async def call(self, api: ApiKey, version: int, code: Callable[[Any], int], **fields: Any) -> Any:
        """The answer; an answer that says "not yet" does not count."""
        return await agreement.when_ready(self.client, lambda: self.client.call(api, version, **fields), code, NOT_YET)

    def place_of(self, producer_id: int) -> int:
        """A producer's number, which is the same on both sides; -1 for none of ours."""
        known = [*self.producers, self.transactional]
        return next((place for place, each in enumerate(known) if each.id == producer_id), -1)


def batch(
    values: list[bytes],
    *,
    timestamp: int = BASE_MS,
    producer: Identity | None = None,
    epoch_shift: int = 0,
    sequence: int = -1,
    is_transactional: bool = False,
) -> bytes:
    stamped = (-1, -1, -1) if producer is None else (producer.id, producer.epoch + epoch_shift, sequence)
    return agreement.batch(
        values,
        stamped,
        keys=[value[:1] or None for value in values],
        timestamps=[timestamp] * len(values),
        is_transactional=is_transactional,
    )


async def produce(side: Side, topic: str, partition: int, records: bytes, **fields: Any) -> Any:
    return await agreement.when_ready(
        side.client,
        lambda: agreement.produce(side.client, topic, records, partition=partition, **fields),
        lambda answer: int(answer[0]),
        NOT_YET,
    )


async def fetch(side: Side, topic: str, partition: int, offset: int, isolation_level: int) -> Any:
    wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 2**20, "current_leader_epoch": -1}
    limits = {"max_wait": 0, "min_bytes": 1, "max_bytes": 2**20, "session_epoch": -1}
    topics = [{"topic": topic, "partitions": [wanted]}]
    body = await side.client.call(
        ApiKey.FETCH, 12, replica_id=-1, topics=topics, isolation_level=isolation_level, **limits
    )
    answer = body.responses[0].partitions[0]
    aborted = sorted((side.place_of(each.producer_id), each.first_offset) for each in answer.aborted_transactions or ())
    batches = [_comparable(each) for each in iter_batches(answer.records or b"")]
    offsets = (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset)
    return int(answer.error_code), *offsets, aborted, batches


def _comparable(batch: RecordBatch) -> tuple[bytes, bytes, bytes]:
    """The first offset, then the bytes but for the leader's epoch, checksum and producer id, and a marker's time."""
    data = bytes(batch.buffer)
    return data[:8], data[21 : 27 if batch.is_control else 43], data[51:]


async def list_offset(side: Side, topic: str, partition: int, timestamp: int, isolation_level: int) -> Any:
    code, offset, found, _ = await agreement.list_offset(
        side.client, topic, timestamp, version=9, partition=partition, isolation_level=isolation_level
    )
    is_of_a_marker = found > BASE_MS + 1_000
    return code, offset, "of a marker" if is_of_a_marker else found


class Conversation(RuleBasedStateMachine):
    """The requests of one example, about a topic, a group and a transactional producer of its own."""

    def __init__(self, runner: asyncio.Runner, sides: tuple[Side, Side]) -> None:
        super().__init__()
        self.runner = runner
        self.sides = sides
        self.topic = self.group = self.transactional_id = ""
        self.ends = [0] * PARTITIONS
        self.sequences: dict[tuple[int, int], int] = {}
        self.added: set[int] = set()  # to the open transaction
        self.written: set[int] = set()  # in the open transaction
        self.asked_of: dict[int, int] = {}  # the lowest sequence that Kafka asked the coordinator about, by partition
        self.shortened: set[int] = set()  # partitions of which records were deleted

    def both(self, ask: Callable[[Side], Awaitable[T]]) -> T:
        """The common answer."""

        async def asked() -> tuple[T, T]:
            answers = await asyncio.gather(*(ask(side) for side in self.sides))
            return answers[0], answers[1]

        dev, kafka = self.runner.run(asked())
        assert dev == kafka, f"the dev broker answers {dev}, Kafka {kafka}"
        return dev

    @initialize()
    def begin(self) -> None:
        self.topic = f"talk-{uuid.uuid4().hex[:12]}"
        self.group, self.transactional_id = f"{self.topic}-group", f"{self.topic}-transactional"

        async def created(side: Side) -> Any:
            # A fetch ends with a segment, and Kafka begins a new one where a record is a week younger.
            code = await agreement.create(side.client, self.topic, PARTITIONS, segment_ms=str(2**60))
            assert code == 0
            side.producers = [await self._named(side, None, Identity()) for _ in range(PRODUCERS)]
            side.transactional = await self._named(side, self.transactional_id, Identity())
            return [each.epoch for each in (*side.producers, side.transactional)]

        self.both(created)

    async def _named(self, side: Side, transactional_id: str | None, known: Identity) -> Identity:
        body = await side.call(
            ApiKey.INIT_PRODUCER_ID, 4, lambda body: body.error_code, transactional_id=transactional_id,
            transaction_timeout=60_000, producer_id=known.id, producer_epoch=known.epoch,
        )  # fmt: skip
        return Identity(body.producer_id, body.producer_epoch)

    # records

    def _appended(self, partition: int, answer: Any, count: int) -> bool:
        code, offset, _ = answer
        if code == 0 and offset + count > self.ends[partition]:
            self.ends[partition] = offset + count
            return True
        return False

    @rule(partition=partitions, values=values, timestamp=timestamps, acks=st.sampled_from([-1, 1]))
    def produce(self, partition: int, values: list[bytes], timestamp: int, acks: int) -> None:
        records = batch(values, timestamp=timestamp)
        answer = self.both(lambda side: produce(side, self.topic, partition, records, acks=acks))
        self._appended(partition, answer, len(values))

    @rule(
        partition=st.integers(0, PARTITIONS - 1),
        values=values,
        number=st.integers(0, PRODUCERS - 1),
        shift=st.sampled_from([0, 0, 0, -2, -1, 1, 5]),
        epoch_shift=st.sampled_from([0, 0, 0, 0, -1, 1]),
    )
    def produce_idempotently(
        self, partition: int, values: list[bytes], number: int, shift: int, epoch_shift: int
    ) -> None:
        sequence = max(0, self.sequences.get((number, partition), 0) + shift)

        def ask(side: Side) -> Awaitable[Any]:
            producer = side.producers[number]
            records = batch(values, producer=producer, epoch_shift=epoch_shift, sequence=sequence)
            return produce(side, self.topic, partition, records)

        if self._appended(partition, self.both(ask), len(values)):
            self.sequences[number, partition] = sequence + len(values)
            for side in self.sides:
                side.producers[number].epoch += max(0, epoch_shift)

    @rule(partition=partitions, back=st.integers(-2, 12), isolation_level=st.integers(0, 1))
    def fetch(self, partition: int, back: int, isolation_level: int) -> None:
        offset = (self.ends[partition] if partition < PARTITIONS else 0) - back
        self.both(lambda side: fetch(side, self.topic, partition, offset, isolation_level))

    @rule(
        partition=partitions,
        timestamp=st.sampled_from([-1, -2, -3, -4, -5, -6]) | timestamps,
        isolation_level=st.integers(0, 1),
    )
    def list_offset(self, partition: int, timestamp: int, isolation_level: int) -> None:
        if timestamp == MAX_TIMESTAMP and partition in self.shortened:
            return
        self.both(lambda side: list_offset(side, self.topic, partition, timestamp, isolation_level))

    @rule(partition=partitions, back=st.integers(-1, 6))
    def delete_records(self, partition: int, back: int) -> None:
        offset = (self.ends[partition] if partition < PARTITIONS else 0) - back

        async def ask(side: Side) -> Any:
            topics = [{"name": self.topic, "partitions": [{"partition_index": partition, "offset": offset}]}]
            body = await side.client.call(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=10_000)
            answer = body.topics[0].partitions[0]
            return int(answer.error_code), answer.low_watermark

        if self.both(ask)[0] == 0:
            self.shortened.add(partition)

    @rule(partition=partitions, current=st.sampled_from([-1, 0, 1]), epoch=st.integers(-1, 2))
    def offset_for_leader_epoch(self, partition: int, current: int, epoch: int) -> None:
        async def ask(side: Side) -> Any:
            wanted = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
            topics = [{"topic": self.topic, "partitions": [wanted]}]
            body = await side.client.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=topics)
            answer = body.topics[0].partitions[0]
            return int(answer.error_code), answer.leader_epoch, answer.end_offset

        self.both(ask)

    # a group

    @rule(partition=partitions, offset=st.integers(-1, 9), metadata=st.sampled_from([None, "", "note"]))
    def commit(self, partition: int, offset: int, metadata: str | None) -> None:
        wanted = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
        topics = [{"name": self.topic, "partitions": [wanted]}]

        async def ask(side: Side) -> Any:
            body = await side.call(ApiKey.OFFSET_COMMIT, 8, _of_commit, group_id=self.group, topics=topics)
            return _of_commit(body)

        self.both(ask)

    @rule(named=st.none() | st.lists(partitions, max_size=3, unique=True))
    def committed(self, named: list[int] | None) -> None:
        topics = None if named is None else [{"name": self.topic, "partition_indexes": named}]

        async def ask(side: Side) -> Any:
            body = await side.call(
                ApiKey.OFFSET_FETCH, 7, lambda body: body.error_code, group_id=self.group, topics=topics,
                require_stable=False,
            )  # fmt: skip
            found = [each for topic in body.topics for each in topic.partitions]
            return sorted(
                (each.partition_index, each.committed_offset, each.metadata or "", int(each.error_code))
                for each in found
            )

        self.both(ask)

    # a transaction

    @rule(partition=partitions)
    def add_partition(self, partition: int) -> None:
        async def ask(side: Side) -> Any:
            body = await side.call(
                ApiKey.ADD_PARTITIONS_TO_TXN, 3, _of_added, v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=side.transactional.id, v3_and_below_producer_epoch=side.transactional.epoch,
                v3_and_below_topics=[{"name": self.topic, "partitions": [partition]}],
            )  # fmt: skip
            return _of_added(body)

        if self.both(ask) == 0:
            self.added.add(partition)

    @rule(partition=st.integers(0, PARTITIONS - 1), values=values, shift=st.sampled_from([0, 0, 0, 0, -1, 2]))
    def produce_in_transaction(self, partition: int, values: list[bytes], shift: int) -> None:
        sequence = max(0, self.sequences.get((-1, partition), 0) + shift)
        if sequence > self.asked_of.get(partition, sequence):
            return

        def ask(side: Side) -> Awaitable[Any]:
            records = batch(values, producer=side.transactional, sequence=sequence, is_transactional=True)
            return produce(side, self.topic, partition, records, transactional_id=self.transactional_id)

        answer = self.both(ask)
        if self._appended(partition, answer, len(values)):
            self.sequences[-1, partition] = sequence + len(values)
            self.written.add(partition)
            self.asked_of.pop(partition, None)
        elif partition not in self.written:
            self.asked_of[partition] = sequence

    @rule(is_commit=st.booleans(), epoch_shift=st.sampled_from([0, 0, 0, -1, 1]))
    def end_transaction(self, is_commit: bool, epoch_shift: int) -> None:
        async def ask(side: Side) -> int:
            body = await side.call(
                ApiKey.END_TXN, 3, lambda body: body.error_code, transactional_id=self.transactional_id,
                producer_id=side.transactional.id, producer_epoch=side.transactional.epoch + epoch_shift,
                committed=is_commit,
            )  # fmt: skip
            return int(body.error_code)

        if self.both(ask) == 0:
            self._settle()

    @precondition(lambda self: self.added)
    @rule()
    def begin_anew(self) -> None:
        """The transactional producer starts again, which aborts its open transaction."""

        async def ask(side: Side) -> int:
            side.transactional = await self._named(side, self.transactional_id, Identity())
            return side.transactional.epoch

        self.both(ask)
        self._settle()
        for partition in range(PARTITIONS):
            self.sequences.pop((-1, partition), None)

    def _settle(self) -> None:
        """Wait for the markers, one in each partition of the transaction."""
        ends = [end + (partition in self.added) for partition, end in enumerate(self.ends)]

        async def settled(side: Side) -> list[Any]:
            last = stable = list[Any]()
            try:
                async with asyncio.timeout(PATIENCE):
                    while True:
                        last = [await list_offset(side, self.topic, each, -1, 0) for each in range(PARTITIONS)]
                        stable = [await list_offset(side, self.topic, each, -1, 1) for each in range(PARTITIONS)]
                        if last == stable and all(found[1] >= end for found, end in zip(last, ends, strict=True)):
                            return last
                        await asyncio.sleep(0.01)
            except TimeoutError:
                name = "Kafka" if side is self.sides[1] else "the dev broker"
                raise AssertionError(
                    f"{name} still has a transaction open after {PATIENCE:g} s: last offsets {last}, stable ones "
                    f"{stable}, wanted are {ends} or more; {self.added=}"
                ) from None

        self.ends = [offset for _, offset, _ in self.both(settled)]
        self.added.clear()
        self.written.clear()


def _of_commit(body: Any) -> int:
    return int(body.topics[0].partitions[0].error_code)


def _of_added(body: Any) -> int:
    return int(body.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


@contextmanager
def sides(runner: asyncio.Runner, kafka: ApacheKafka) -> Iterator[tuple[Side, Side]]:
    """Connections to a dev broker and to Kafka."""

    async def connected(stack: AsyncExitStack) -> tuple[Side, Side]:
        broker = await stack.enter_async_context(DevBroker(auto_create_topics_enable=False, retention_ms=-1))
        nodes = (broker.nodes[0], Node(1, *kafka.address_of(1)))
        dev, other = [await stack.enter_async_context(RawClient(node)) for node in nodes]
        return Side(dev), Side(other)

    stack = AsyncExitStack()
    try:
        yield runner.run(connected(stack))
    finally:
        runner.run(stack.aclose())


def test_random_conversations_go_alike(kafka: ApacheKafka) -> None:
    """``AIOKAFKAPY_CONVERSATIONS=1000`` has so many, eight a second, and shortens one that goes otherwise: that takes
    five minutes, after which the suite's time-out hides the finding.
    """
    wanted = os.environ.get("AIOKAFKAPY_CONVERSATIONS")
    phases = [Phase.reuse, Phase.generate] if wanted is None else list(Phase)
    with asyncio.Runner() as runner, sides(runner, kafka) as both:
        run_state_machine_as_test(
            lambda: Conversation(runner, both),  # type: ignore[arg-type]  # a function will do as well as a class
            settings=settings(
                max_examples=int(wanted or 15),
                stateful_step_count=25,
                deadline=None,
                phases=phases,
                suppress_health_check=list(HealthCheck),
            ),
        )
