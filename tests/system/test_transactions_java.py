"""Kafka's own Java tools for transactions, unchanged, on the dev broker: ``kafka-transactions``, and the copier that
its system tests run.
"""

from __future__ import annotations

from typing import Literal

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from tests.reading import committed_values
from tests.tool_server import ToolServer

pytestmark = pytest.mark.java

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
VALUES = [b"%d" % number for number in range(300)]


async def committed(broker: DevBroker, topic: str) -> list[bytes | None]:
    return await committed_values(broker.bootstrap_servers, topic)


@pytest.mark.parametrize("version", [2, 1])
async def test_javas_copier_copies_each_record_once(tool_server: ToolServer, version: Literal[1, 2]) -> None:
    """The copier uses its producer, its consumer and its group's offsets, and aborts transactions at random."""
    async with DevBroker(transaction_version=version) as broker:
        broker.create_topic("in", 1)
        broker.create_topic("out", 1)
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send_many("in", VALUES)
        await tool_server.run(
            COPIER,
            *("--broker-list", broker.bootstrap_servers, "--input-topic", "in", "--input-partition", 0),
            *("--output-topic", "out", "--max-messages", len(VALUES), "--consumer-group", "g"),
            *("--transaction-size", 30, "--transactional-id", "copier", "--enable-random-aborts"),
        )
        assert await committed(broker, "out") == VALUES


async def test_javas_tool_sees_and_ends_transactions(tool_server: ToolServer) -> None:
    async with DevBroker() as broker:
        broker.create_topic("t", 1)
        servers = broker.bootstrap_servers

        async def said(command: str, *arguments: object) -> list[list[str]]:
            """The tool's output, without its heading: the columns of each line."""
            output = await tool_server.run(TRANSACTIONS, "--bootstrap-server", servers, command, *arguments)
            return [line.split() for line in output.splitlines()[1:]]

        place = ("--topic", "t", "--partition", 0)
        async with KafkaProducer(servers, transactional_id="mine") as producer:
            await producer.begin_transaction()
            await producer.send("t", b"never")
            ((name, _, _, state),) = await said("list")
            assert (name, state) == ("mine", "Ongoing")
            ((_, _, producer_id, epoch, state, *_, partitions),) = await said("describe", "--transactional-id", "mine")
            assert (epoch, state, partitions) == ("0", "Ongoing", "t-0")
            ((of_partition, its_epoch, _, _, _, start),) = await said("describe-producers", *place)
            assert (of_partition, its_epoch, start) == (producer_id, epoch, "0")
            assert await said("find-hanging", "--broker-id", 1, "--max-transaction-timeout", 1) == []

            await tool_server.run(TRANSACTIONS, "--bootstrap-server", servers, "abort", *place, "--start-offset", 0)
            assert [start for *_, start in await said("describe-producers", *place)] == ["None"]
            assert await committed(broker, "t") == []
