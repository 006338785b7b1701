"""``KafkaProducer.open_table_send()`` against the dev broker: order over all tables, and each table's outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker

SMALL: dict[str, Any] = {"buffer_memory": 65_536, "max_request_size": 32_768, "batch_size": 4_096}
"""No room for all tables at once."""


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker() as broker:
        broker.create_topic("t", partitions=1)
        yield broker


def table(first: int, count: int) -> Any:
    return pa.table({"value": [b"%08d" % number for number in range(first, first + count)]})


async def test_rows_keep_their_order_over_all_tables(broker: DevBroker) -> None:
    async with KafkaProducer(broker.bootstrap_servers, **SMALL) as producer:
        async with producer.open_table_send("t") as tables:
            outcomes = [await tables.send(table(first, 1_000)) for first in range(0, 20_000, 1_000)]
        found = [outcome.result() for outcome in outcomes]
    assert [int(record.value or b"") for record in broker.records("t")] == list(range(20_000))
    assert [metadata.offset(0) for metadata in found] == list(range(0, 20_000, 1_000))


async def test_tables_of_several_tasks_do_not_mix(broker: DevBroker) -> None:
    async with KafkaProducer(broker.bootstrap_servers, **SMALL) as producer:
        async with producer.open_table_send("t") as tables:
            await asyncio.gather(*(tables.send(table(first, 3_000)) for first in range(0, 15_000, 3_000)))
            await tables.drain()
            pending = producer.statistics().pending
        assert pending == 0
    found = [int(record.value or b"") for record in broker.records("t")]
    assert [found[start : start + 3_000] for start in range(0, 15_000, 3_000)] == [
        list(range(found[start], found[start] + 3_000)) for start in range(0, 15_000, 3_000)
    ]


async def test_a_row_that_fails_stops_no_other_table(broker: DevBroker) -> None:
    wrong = pa.table({"value": [b"a", b"b"], "partition": pa.array([0, 7], pa.int32())})
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        async with producer.open_table_send("t") as tables:
            with pytest.raises(errors.SerializationError):
                await tables.send(pa.table({"other": [1]}))
            first = await tables.send(wrong)
            second = await tables.send(table(0, 2))
        assert list(first.result().failed) == [1]
        assert not second.result().failed
    assert len(broker.records("t")) == 3


async def test_when_an_error_leaves_it_no_outcome_is_waited_for(broker: DevBroker) -> None:
    async with KafkaProducer(broker.bootstrap_servers, linger_ms=3_600_000, delivery_timeout_ms=7_300_000) as producer:
        outcome = None
        with pytest.raises(ZeroDivisionError):
            async with producer.open_table_send("t") as tables:
                outcome = await tables.send(table(0, 2))
                raise ZeroDivisionError
        assert outcome is not None
        with pytest.raises(asyncio.CancelledError):
            await outcome
        await producer.flush()
    assert len(broker.records("t")) == 2
