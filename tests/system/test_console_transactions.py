"""Records of transactions in the console: those that were aborted are marked, or with read_committed not shown."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.console.broker_source import BrokerSource
from aiokafkapy.console.cluster_source import ClusterSource
from aiokafkapy.console.follow import Asked, follow, read_one, read_page

TOPIC = "orders"


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker(2) as broker:
        broker.create_topic(TOPIC, 2)
        yield broker


@pytest.fixture(params=["inside", "by requests"])
async def source(request: Any, broker: DevBroker) -> AsyncIterator[Any]:
    source: Any = BrokerSource(broker) if request.param == "inside" else ClusterSource(broker.bootstrap_servers)
    await source.start()
    yield source
    await source.stop()


def asked(**parameters: str) -> Asked:
    return Asked.of({"topic": TOPIC, **parameters})


def marks(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["value"]["text"]: row["outcome"] for row in rows}


async def write(producer: KafkaProducer[Any, Any], *values: str) -> None:
    await producer.begin_transaction()
    for number, value in enumerate(values):
        await producer.send(TOPIC, value.encode(), partition=number % 2)


async def test_aborted_records_are_marked_and_with_read_committed_not_shown(broker: DevBroker, source: Any) -> None:
    async with (
        KafkaProducer(broker.bootstrap_servers) as plain,
        KafkaProducer(broker.bootstrap_servers, transactional_id="shop") as producer,
    ):
        await plain.send(TOPIC, b"before", partition=0)
        await write(producer, "kept 0", "kept 1")
        await producer.commit_transaction()
        await write(producer, "lost 0", "lost 1")
        await plain.send(TOPIC, b"between", partition=0)  # in the time of the one that is aborted
        await producer.abort_transaction()
        await write(producer, "kept 2")
        await producer.commit_transaction()
        await write(producer, "open 0")
        await plain.send(TOPIC, b"behind", partition=0)
        found: Any = await read_page(source, asked(**{"from": "earliest"}), None, 100)
        kept = ("before", "kept 0", "kept 1", "between", "kept 2")
        lost, pending = dict.fromkeys(("lost 0", "lost 1"), "aborted"), dict.fromkeys(("open 0", "behind"), "pending")
        assert marks(found["rows"]) == dict.fromkeys(kept, "") | lost | pending
        whole = next(row for row in found["rows"] if row["value"]["text"] == "lost 0")
        place = {"partition": str(whole["partition"]), "from": f"offset:{whole['offset']}"}
        one: Any = await read_one(source, asked(**place), None)
        assert one is not None
        assert one["outcome"] == "aborted"
        committed = {"isolation": "read_committed", "from": "earliest"}
        page: Any = await read_page(source, asked(**committed), None, 100)
        assert marks(page["rows"]) == dict.fromkeys(kept, "")
        assert page["is_at_end"]
        assert await read_one(source, asked(isolation="read_committed", **place), None) is None
        # Page by page they are the same, and the last ones are those at the end that is stable.
        few: Any = await read_page(source, asked(**committed), None, 2)
        rest: Any = await read_page(source, asked(**(committed | {"from": few["next"]})), None, 100)
        assert marks(few["rows"] + rest["rows"]) == dict.fromkeys(kept, "")
        of_last = asked(partition="0", isolation="read_committed", **{"from": "last:2"})
        last: Any = await read_page(source, of_last, None, 9)
        assert marks(last["rows"]) == {"kept 2": ""}  # and a marker
        await producer.abort_transaction()


def followed(source: Any, wanted: Asked) -> AsyncGenerator[Any, None]:
    return follow(source, wanted, None)


async def test_records_that_are_followed_are_pending_until_their_transaction_has_ended(
    broker: DevBroker, source: Any
) -> None:
    async with (
        KafkaProducer(broker.bootstrap_servers, transactional_id="shop") as producer,
        aclosing(followed(source, asked())) as messages,
        aclosing(followed(source, asked(isolation="read_committed"))) as committed,
    ):
        await anext(messages)
        await anext(committed)
        for is_kept in (False, True):
            await write(producer, f"order {is_kept}")
            rows: list[Any] = []
            while not rows:
                rows = (await anext(messages))["rows"]
            assert marks(rows) == {f"order {is_kept}": "pending"}
            await (producer.commit_transaction() if is_kept else producer.abort_transaction())
            decided: list[Any] = []
            while not decided:
                decided = (await anext(messages))["decided"]
            assert decided == [(rows[0]["partition"], rows[0]["offset"], "" if is_kept else "aborted")]
        shown: list[Any] = []
        while not shown:
            shown = (await anext(committed))["rows"]
        assert marks(shown) == {"order True": ""}
