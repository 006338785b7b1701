"""Consumers of other clients, as ``ConsumedBatches`` needs them: they read records, name their group, and go to an
offset.

Owns the names that aiokafka's ``AIOKafkaConsumer`` and confluent-kafka's ``Consumer`` have for these; it imports
neither. Calls of confluent-kafka block, so they run in a thread, one at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from ...cancellation import to_its_end
from ...common import TopicPartition
from ...errors import ConfigurationError, KafkaError
from .group_offsets import GroupMetadata, OffsetToCommit, group_of

__all__ = ["AiokafkaConsumer", "ConfluentConsumer", "Consumer", "consumer_of"]

T = TypeVar("T")
R = TypeVar("R")
"""A record, in the form of the consumer's client."""
R_co = TypeVar("R_co", covariant=True)

SECONDS_OF_A_POLL: Final = 0.2
"""Seconds of one poll: a cancelled poll of a blocking consumer ends after them."""

SECONDS_TO_ASK_FOR_OFFSETS: Final = 30.0
PARTITION_EOF: Final = -191


class Consumer(Protocol[R]):
    """The calls of a consumer that the loop makes."""

    async def read(self, max_records: int) -> Mapping[TopicPartition, Sequence[R]]:
        """Records by partition, in order; empty if none came for a while."""

    def next_offset(self, record: R) -> OffsetToCommit:
        """The offset after a record's."""

    def offset(self, record: R) -> int:
        """A record's offset."""

    def group(self) -> GroupMetadata:
        """The group, and the consumer's membership in it."""

    async def go_back(self, offsets: Mapping[TopicPartition, int], generation: int) -> None:
        """Read on at these offsets, which were read in this generation of the group. Partitions may have moved since:
        those that are no longer here are left out, the others go on at the group's committed offsets.
        """


class _AiokafkaRecord(Protocol):
    """``ConsumerRecord``."""

    @property
    def offset(self) -> int: ...


class AiokafkaConsumer(Protocol[R_co]):
    """``AIOKafkaConsumer``; its partitions are named tuples of a topic and a number, of aiokafka's own type."""

    async def getmany(self, *, timeout_ms: int, max_records: int) -> Mapping[Any, Sequence[R_co]]: ...

    def assignment(self) -> Iterable[Any]: ...

    async def committed(self, partition: Any) -> int | None: ...

    def seek(self, partition: Any, offset: int) -> None: ...


class _ConfluentError(Protocol):
    """``KafkaError`` of confluent-kafka."""

    def code(self) -> int: ...


class _ConfluentMessage(Protocol):
    """``Message``."""

    def topic(self) -> str: ...

    def partition(self) -> int: ...

    def offset(self) -> int: ...

    def leader_epoch(self) -> int | None: ...

    def error(self) -> _ConfluentError | None: ...


class _ConfluentPartition(Protocol):
    """``TopicPartition`` of confluent-kafka, which has an offset."""

    topic: str
    partition: int
    offset: int


class ConfluentConsumer(Protocol[R_co]):
    """``Consumer`` of confluent-kafka."""

    def consume(self, num_messages: int, timeout: float, /) -> Sequence[R_co]: ...

    def consumer_group_metadata(self) -> object: ...

    def assignment(self) -> Sequence[_ConfluentPartition]: ...

    def committed(self, partitions: Any, *, timeout: float) -> Sequence[_ConfluentPartition]: ...

    def seek(self, partition: Any, /) -> None: ...


def consumer_of(consumer: Any, group_metadata: object) -> Consumer[Any]:
    """Raises TypeError for a consumer of neither client, or whose group is not known, and ConfigurationError for one
    that commits by itself.
    """
    group = None if group_metadata is None else group_of(group_metadata)
    if hasattr(consumer, "getmany"):
        return _Aiokafka(consumer, group)
    if hasattr(consumer, "consume") and hasattr(consumer, "consumer_group_metadata"):
        return _ConfluentKafka(consumer, group)
    raise TypeError(
        f"{type(consumer).__name__} is not a consumer that is known here: pass aiokafka's AIOKafkaConsumer or "
        "confluent_kafka's Consumer, or write the loop with transaction() and send_offsets_to_transaction()"
    )


class _Aiokafka:
    """aiokafka's consumer. It has no public call for the membership: private attributes tell it."""

    def __init__(self, consumer: AiokafkaConsumer[_AiokafkaRecord], group: GroupMetadata | None) -> None:
        if getattr(consumer, "_enable_auto_commit", False):
            raise ConfigurationError(
                "the consumer commits by itself: make it with enable_auto_commit=False, because the transaction commits"
            )
        self._consumer = consumer
        self._given = group
        if group is None:
            self.group()

    async def read(self, max_records: int) -> Mapping[TopicPartition, Sequence[_AiokafkaRecord]]:
        return await self._consumer.getmany(timeout_ms=1_000, max_records=max_records)

    def next_offset(self, record: _AiokafkaRecord) -> OffsetToCommit:
        return OffsetToCommit(record.offset + 1)

    def offset(self, record: _AiokafkaRecord) -> int:
        return record.offset

    def group(self) -> GroupMetadata:
        if self._given is not None:
            return self._given
        coordinator = getattr(self._consumer, "_coordinator", None)
        group_id = getattr(coordinator, "group_id", None)
        if not group_id:
            raise TypeError("the consumer's group is not known: start it with a group_id, or pass group_metadata")
        return GroupMetadata(
            group_id,
            getattr(coordinator, "generation", -1),
            getattr(coordinator, "member_id", ""),
            getattr(coordinator, "_group_instance_id", None),
        )

    async def go_back(self, offsets: Mapping[TopicPartition, int], generation: int) -> None:
        has_moved = self.group().generation_id != generation
        for partition in self._consumer.assignment():
            offset = offsets.get(TopicPartition(*partition))
            if offset is None:
                continue
            if has_moved:
                offset = max(offset, await self._consumer.committed(partition) or 0)
            if partition in self._consumer.assignment():
                self._consumer.seek(partition, offset)


class _ConfluentKafka:
    def __init__(self, consumer: ConfluentConsumer[_ConfluentMessage], group: GroupMetadata | None) -> None:
        self._consumer = consumer
        self._given = group

    async def read(self, max_records: int) -> Mapping[TopicPartition, Sequence[_ConfluentMessage]]:
        consuming = asyncio.ensure_future(asyncio.to_thread(self._consumer.consume, max_records, SECONDS_OF_A_POLL))
        try:
            messages = await asyncio.shield(consuming)
        except asyncio.CancelledError:
            await asyncio.wait([consuming])
            if consuming.exception() is None:
                await _in_thread(lambda: self._give_back(consuming.result()))
            raise
        found: dict[TopicPartition, list[_ConfluentMessage]] = {}
        for message in messages:
            error = message.error()
            if error is None:
                found.setdefault(TopicPartition(message.topic(), message.partition()), []).append(message)
            elif error.code() != PARTITION_EOF:
                await _in_thread(lambda: self._give_back(messages))
                raise KafkaError(f"the consumer says: {error}")
        return found

    def next_offset(self, record: _ConfluentMessage) -> OffsetToCommit:
        epoch = record.leader_epoch()
        return OffsetToCommit(record.offset() + 1, -1 if epoch is None else epoch)

    def offset(self, record: _ConfluentMessage) -> int:
        return record.offset()

    def group(self) -> GroupMetadata:
        return self._given if self._given is not None else group_of(self._consumer.consumer_group_metadata())

    async def go_back(self, offsets: Mapping[TopicPartition, int], generation: int) -> None:
        await _in_thread(lambda: self._go_back(offsets, generation))

    def _give_back(self, messages: Sequence[_ConfluentMessage]) -> None:
        """No caller will see these records: read them again."""
        first: dict[tuple[str, int], int] = {}
        for message in messages:
            if message.error() is None:
                first.setdefault((message.topic(), message.partition()), message.offset())
        for one in self._consumer.assignment():
            if (one.topic, one.partition) in first:
                one.offset = first[one.topic, one.partition]
                self._consumer.seek(one)

    def _go_back(self, offsets: Mapping[TopicPartition, int], generation: int) -> None:
        mine: Sequence[_ConfluentPartition] = [
            one for one in self._consumer.assignment() if TopicPartition(one.topic, one.partition) in offsets
        ]
        if mine and self.group().generation_id != generation:
            mine = self._consumer.committed(mine, timeout=SECONDS_TO_ASK_FOR_OFFSETS)
        for one in mine:
            one.offset = max(one.offset, offsets[TopicPartition(one.topic, one.partition)])
            self._consumer.seek(one)


async def _in_thread(work: Callable[[], T]) -> T:
    """Run a blocking call; a cancelled caller waits for its end, because the consumer serves one call at a time."""
    return await to_its_end(asyncio.to_thread(work))
