"""The console's records of a topic that changes: it loses leaders, gets partitions, or is deleted and made again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.console import cluster_feed
from aiokafkapy.console.broker_source import BrokerSource
from aiokafkapy.console.cluster_source import ClusterSource
from aiokafkapy.console.follow import Asked, follow, read_one, read_page
from aiokafkapy.errors import KafkaError

TOPIC = "orders"


@pytest.fixture
async def broker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DevBroker]:
    monkeypatch.setattr(cluster_feed, "LOOK_AGAIN", 0.0)
    async with DevBroker(2) as broker:
        broker.create_topic(TOPIC, 3)
        yield broker


@pytest.fixture
async def cluster(broker: DevBroker) -> AsyncIterator[ClusterSource]:
    source = ClusterSource(broker.bootstrap_servers)
    await source.start()
    yield source
    await source.stop()


@pytest.fixture(params=["inside", "by requests"])
def source(request: Any, broker: DevBroker, cluster: ClusterSource) -> Any:
    return BrokerSource(broker) if request.param == "inside" else cluster


def asked(**parameters: str) -> Asked:
    return Asked.of({"topic": TOPIC, **parameters})


async def write(broker: DevBroker, values: dict[str, int]) -> None:
    """A record of each value in its partition."""
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        for value, partition in values.items():
            await producer.send(TOPIC, value.encode(), partition=partition)


def values_of(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(row["value"]["text"] for row in rows)


async def shown(messages: AsyncGenerator[Any, None], count: int) -> list[str]:
    """The next ``count`` values."""
    found: list[Any] = []
    while len(found) < count:
        found += (await anext(messages))["rows"]
    return values_of(found)


async def until_note(messages: AsyncGenerator[Any, None], note: str) -> None:
    while (await anext(messages))["note"] != note:
        pass


async def test_the_rest_is_read_where_a_partition_has_no_leader(broker: DevBroker, cluster: ClusterSource) -> None:
    """The view was an error, after a minute: just when an operator wants to look."""
    await write(broker, {"a": 0, "b": 1, "c": 2})
    broker.controls.set_leader(TOPIC, 1, None)
    page: Any = await read_page(cluster, asked(**{"from": "earliest"}), None, 10)
    assert (values_of(page["rows"]), page["note"]) == (["a", "c"], "partition 1 has no leader")
    nothing = await read_page(cluster, asked(partition="1", **{"from": "earliest"}), None, 10)
    assert (nothing["rows"], nothing["note"]) == ([], "partition 1 has no leader")
    with pytest.raises(KafkaError, match="partition 1 has no leader"):
        await read_one(cluster, asked(partition="1", **{"from": "offset:0"}), None)
    broker.controls.set_leader(TOPIC, 1, 2)
    page = await read_page(cluster, asked(**{"from": page["next"]}), None, 10)
    assert (values_of(page["rows"]), page["note"]) == (["b"], "")


async def test_a_partition_is_followed_once_it_has_a_leader(broker: DevBroker, cluster: ClusterSource) -> None:
    await write(broker, {"before": 1})
    broker.controls.set_leader(TOPIC, 1, None)
    async with aclosing(follow(cluster, asked(), None)) as messages:
        await until_note(messages, "partition 1 has no leader")
        await write(broker, {"a": 0})
        assert await shown(messages, 1) == ["a"]
        broker.controls.set_leader(TOPIC, 1, 2)
        await until_note(messages, "")
        await anext(messages)  # its end is looked up
        await write(broker, {"b": 1})
        assert await shown(messages, 1) == ["b"]


async def test_partitions_that_are_added_are_followed_from_their_beginning(broker: DevBroker, source: Any) -> None:
    async with (
        aclosing(follow(source, asked(), None)) as messages,
        aclosing(follow(source, asked(partition="0"), None)) as of_one,
    ):
        await anext(messages)
        await anext(of_one)
        broker.state.topics.add_partitions(TOPIC, 5)
        await write(broker, {"a": 3, "b": 4, "c": 0})
        assert await shown(messages, 3) == ["a", "b", "c"]
        assert await shown(of_one, 1) == ["c"]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
async def test_a_topic_that_is_made_again_is_followed_from_its_beginning(
    broker: DevBroker, source: Any, isolation: str
) -> None:
    async with aclosing(follow(source, asked(isolation=isolation), None)) as messages:
        await anext(messages)
        await write(broker, {f"old {number}": 0 for number in range(5)})
        await shown(messages, 5)
        broker.delete_topic(TOPIC)
        await until_note(messages, f"there is no topic {TOPIC!r}")
        broker.create_topic(TOPIC, 2)
        new = {f"new {number}": number % 2 for number in range(20)}
        await write(broker, new)
        assert await shown(messages, 20) == sorted(new)


async def test_a_topic_that_is_made_again_at_once_is_not_taken_for_the_one_before(
    broker: DevBroker, source: Any
) -> None:
    async with aclosing(follow(source, asked(), None)) as messages:
        await anext(messages)
        await write(broker, {"old": 0})
        await shown(messages, 1)
        broker.delete_topic(TOPIC)
        broker.create_topic(TOPIC, 1)
        await write(broker, {"a": 0})
        await write(broker, {"b": 0})
        assert await shown(messages, 2) == ["a", "b"]
