"""The rows of one batch, given to a producer that takes some of them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.errors import KafkaError, MetadataTimeoutError
from aiokafkapy.integrations.outbox.absent_topics import AbsentTopics
from aiokafkapy.integrations.outbox.outcomes import Held
from aiokafkapy.integrations.outbox.rows import OutboxRow
from aiokafkapy.integrations.outbox.sending import Sending


def row(number: int, topic: str = "t", partition: int | None = None, headers: str | None = None) -> OutboxRow:
    return OutboxRow(number, UUID(int=number), number, 0, topic, partition, None, b"%d" % number, headers, 0)


class Taking:
    """A producer whose topics have two partitions; an unknown topic and a missing partition cost a wait each."""

    def __init__(self, *unknown: str) -> None:
        self.unknown = unknown
        self.taken: list[bytes] = []
        self.waits = 0
        self.count = self.on_broker = 2

    async def enqueue(self, topic: str, value: bytes, *, partition: int | None = None, **_: object) -> Any:
        if topic in self.unknown or (partition or 0) >= self.on_broker:
            self.waits += 1
            raise MetadataTimeoutError(topic=topic, partition=None if topic in self.unknown else partition)
        self.taken.append(value)
        return None

    async def partitions_for(self, topic: str) -> list[object]:
        if topic in self.unknown:
            raise MetadataTimeoutError(topic=topic)
        return [object()] * self.count

    async def request(self, api_key: int, body: object) -> Any:
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[None] * self.on_broker)])


async def sent(producer: Taking, *rows: OutboxRow, **options: Any) -> Sending:
    sending = Sending(cast("KafkaProducer[Any, Any]", producer), rows, "stop", **options)
    await sending.enqueue()
    return sending


@pytest.mark.parametrize("is_whole_or_nothing", [False, True])
async def test_the_missing_partitions_of_a_topic_are_waited_for_once(is_whole_or_nothing: bool) -> None:
    """Each row cost ``max_block_ms``, in which no row of any topic was published."""
    producer = Taking()
    rows = [row(1, partition=0), row(2, partition=13), row(3, partition=2), row(4, partition=1), row(5, partition=14)]
    sending = await sent(producer, *rows, is_whole_or_nothing=is_whole_or_nothing)
    assert producer.waits == 1
    assert set(sending.outcome.held) == {Held("lane", 2), Held("lane", 3), Held("lane", 5)}
    assert producer.taken == ([b"1"] if is_whole_or_nothing else [b"1", b"4"])


async def test_a_topic_without_metadata_is_waited_for_once_whatever_its_rows_name() -> None:
    producer = Taking("missing")
    rows = [row(n, "missing", partition=n) for n in range(3)]
    sending = await sent(producer, *rows, row(9, "missing"), row(10))
    assert producer.waits == 1
    assert Held("topic", "missing") in sending.outcome.held
    assert producer.taken == [b"10"]


async def test_a_topic_that_goes_meanwhile_ends_nothing() -> None:
    producer = Taking()

    async def gone(topic: str) -> list[object]:
        raise KafkaError(topic=topic)

    producer.partitions_for = gone  # type: ignore[method-assign]
    sending = await sent(producer, row(1, partition=5), row(2))
    assert set(sending.outcome.held) == {Held("lane", 1)}
    assert producer.taken == [b"2"]


async def test_topics_and_partitions_absent_in_an_earlier_batch_are_asked_for_beside_the_next_ones() -> None:
    """Each attempt waited for ``max_block_ms``, in which no row of any other topic was published."""
    producer = Taking("missing")
    absent = AbsentTopics(cast("KafkaProducer[Any, Any]", producer), lambda: None)
    rows = [row(1, "missing"), row(2), row(3, partition=7), row(4, partition=1)]
    for _ in range(3):
        sending = await sent(producer, *rows, absent=absent)
        assert set(sending.outcome.held) == {Held("topic", "missing"), Held("lane", 3)}
        assert producer.waits == 2, "those of the first batch"
        await asyncio.sleep(0)
    assert producer.taken == [b"2", b"4"] * 3
    producer.unknown = ()
    await sent(producer, row(1, "missing"), absent=absent)
    await asyncio.sleep(0)
    await sent(producer, row(1, "missing"), absent=absent)
    assert producer.taken[-1] == b"1", "found by the question after the last that failed"
    await absent.close()


async def test_a_partition_that_was_added_meanwhile_is_found_by_asking_a_broker() -> None:
    """The producer itself knows the partitions that it had, until a record needs another one."""
    producer = Taking()
    absent = AbsentTopics(cast("KafkaProducer[Any, Any]", producer), lambda: None)
    for _ in range(2):
        await sent(producer, row(1, partition=2), absent=absent)
        await asyncio.sleep(0)
    producer.on_broker = 3
    await sent(producer, row(1, partition=2), absent=absent)
    await asyncio.sleep(0)
    assert producer.taken == []
    await sent(producer, row(1, partition=2), absent=absent)
    assert (producer.taken, producer.waits) == ([b"1"], 1)
    await absent.close()


async def test_topics_and_partitions_that_have_come_to_exist_are_held_no_longer() -> None:
    """The scope was held once more, for up to 30 s, and the answer to the question meanwhile was of no use."""
    producer, news = Taking("missing"), 0

    def on_news() -> None:
        nonlocal news
        news += 1

    absent = AbsentTopics(cast("KafkaProducer[Any, Any]", producer), on_news)
    for _ in range(2):
        await sent(producer, row(1, "missing"), row(2, partition=2), absent=absent)
        await asyncio.sleep(0)
    assert (absent.pop_released(), news) == ({Held("lane", 2)}, 1), "two partitions are more than none"
    producer.unknown, producer.on_broker = (), 3
    await sent(producer, row(1, "missing"), row(2, partition=2), absent=absent)
    await asyncio.sleep(0)
    assert (absent.pop_released(), news) == ({Held("topic", "missing"), Held("lane", 2)}, 3)
    assert absent.pop_released() == set()
    await absent.close()


@pytest.mark.parametrize("headers", ["{", "[1]", '[["a", 5]]', "[" * 100_000])
async def test_headers_that_no_outbox_has_written_refuse_their_row_alone(headers: str) -> None:
    producer = Taking()
    sending = await sent(producer, row(1, headers=headers), row(2))
    assert [(refused.id, bool(why)) for refused, why in sending.outcome.refused] == [(1, True)]
    assert producer.taken == [b"2"]
