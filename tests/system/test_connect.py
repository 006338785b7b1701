"""Kafka Connect in standalone mode, and Debezium's engine, on the dev broker: no container, each in one JVM."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import asyncpg
import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.testing import KafkaTools
from aiokafkapy.testing.servers.postgresql import USER, PostgreSQL
from tests.databases import require_postgresql
from tests.foreign_programs import connect_program

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def programs() -> KafkaTools:
    return connect_program("FileToFile", "ChangesToTopic")


async def test_connect_takes_a_file_to_a_topic_and_to_another_file_and_resumes(
    programs: KafkaTools, tmp_path: Path
) -> None:
    async with DevBroker(nodes=3) as broker:
        await programs.run("FileToFile", broker.bootstrap_servers, tmp_path)
        lines = [str(number) for number in range(150)]
        assert sorted((tmp_path / "to").read_text().split()) == sorted(lines)
        assert Counter(record.value for record in broker.records("lines")) == Counter(line.encode() for line in lines)
        topic = broker.state.topics.get("lines")
        assert topic is not None
        assert len(topic.partitions) == 3
        committed = broker.state.groups.offsets.get("connect-sink")
        assert sum(each.offset for each in committed.values()) == 150


async def test_debezium_takes_a_tables_changes_to_a_topic_and_resumes_from_its_offsets_in_another(
    programs: KafkaTools,
) -> None:
    require_postgresql()
    with PostgreSQL() as server:
        database = await asyncpg.connect(host="127.0.0.1", port=server.port, user=USER, database="postgres")
        await database.execute("alter system set wal_level = logical")
        await database.close()
        server.stop()
        server.start()
        async with DevBroker(nodes=3) as broker:
            await programs.run("ChangesToTopic", broker.bootstrap_servers, server.port, USER)
            changes = [json.loads(record.value or b"")["payload"] for record in broker.records("db.public.things")]
            assert sorted(change["after"]["id"] for change in changes) == list(range(100))
            # The second half came as changes, and not with another snapshot.
            assert Counter(change["op"] for change in changes) == {"r": 50, "c": 50}
            offsets = broker.state.topics.get("offsets")
            assert offsets is not None
            assert offsets.config.is_compacted
