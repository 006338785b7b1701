"""franz-go, unchanged, on the dev broker: its transact session, and a group; where there is Go, and its modules."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal, get_args

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from tests.foreign_programs import franz_go_program
from tests.reading import committed_values

from .whole_clients import check, said_by

COUNT = 300
PARTITIONS = 2
Version = Literal[1, 2]


@pytest.fixture(scope="module")
def copier() -> Path:
    """The program, compiled."""
    return franz_go_program()


@pytest.mark.timeout(400)
async def test_its_session_copies_each_record_once(copier: Path) -> None:
    """The session runs in both versions of transactions."""
    for version in get_args(Version):
        await _copies(copier, transaction_version=version)


@pytest.mark.timeout(400)
async def test_its_session_does_so_on_older_releases(copier: Path) -> None:
    for release in ("2.1", "2.8"):
        await _copies(copier, version=release)


async def _copies(copier: Path, **options: object) -> None:
    """Every third transaction is aborted, and its input is read again."""
    async with DevBroker(nodes=3, **options) as broker:  # type: ignore[arg-type]
        for topic in ("in", "out"):
            broker.create_topic(topic, PARTITIONS)
        async with KafkaProducer(broker.bootstrap_servers) as producer:
            await producer.send_many("in", [b"%d" % number for number in range(COUNT)])
        process = await asyncio.create_subprocess_exec(
            str(copier), broker.bootstrap_servers, str(COUNT), stderr=asyncio.subprocess.PIPE
        )
        _, said = await asyncio.wait_for(process.communicate(), 90)
        assert process.returncode == 0, said.decode()
        found = await committed_values(broker.bootstrap_servers, "out", PARTITIONS)
        values = [int(value or b"") for value in found]
        assert sorted(values) == list(range(COUNT))
        assert len(broker.records("out")) > COUNT


@pytest.mark.timeout(400)
async def test_it_administers_and_ten_members_of_a_group_come_and_go_and_resume(copier: Path) -> None:
    async with DevBroker(nodes=3) as broker:
        check(broker, await said_by(str(copier), broker.bootstrap_servers, "group"), "franz-go")
