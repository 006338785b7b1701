"""franz-go, unchanged, on the dev broker: its transact session, and a group; where there is Go, and its modules."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Literal, get_args

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from tests.reading import committed_values

SOURCES = Path(__file__).parent / "franz_go"
COUNT = 300
PARTITIONS = 2
Version = Literal[1, 2]


@pytest.fixture(scope="module")
def copier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, compiled: a quarter of a minute the first time on a machine, and Go's cache has it from then on."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go here")
    program = tmp_path_factory.mktemp("franz-go") / "copier"
    environment = os.environ | {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    modules = subprocess.run(
        [go, "mod", "download"], cwd=SOURCES, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    if modules.returncode:
        pytest.skip(f"franz-go cannot be had: {modules.stderr.strip()[-200:]}")
    # Without optimizations it takes half of the time.
    command = [go, "build", "-gcflags=all=-N -l", "-o", str(program), "."]
    subprocess.run(command, cwd=SOURCES, env=environment, timeout=300, check=True)
    return program


@pytest.mark.timeout(400)
async def test_its_session_copies_each_record_once(copier: Path) -> None:
    """In both versions of transactions, by one test, for two would compile the program twice."""
    for version in get_args(Version):
        await _copies(copier, transaction_version=version)


@pytest.mark.timeout(400)
async def test_its_session_does_so_on_older_releases(copier: Path) -> None:
    for release in ("2.1", "2.8"):
        await _copies(copier, version=release)


async def _copies(copier: Path, **options: object) -> None:
    """Every third transaction is aborted, and what it has read is read again."""
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
        assert len(broker.records("out", None)) > COUNT


@pytest.mark.timeout(400)
async def test_ten_members_of_a_group_come_and_go_and_read_each_record_once(copier: Path) -> None:
    async with DevBroker(nodes=3) as broker:
        broker.create_topic("t", 12)
        process = await asyncio.create_subprocess_exec(
            str(copier),
            broker.bootstrap_servers,
            "group",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, errors = await asyncio.wait_for(process.communicate(), 200)
        assert process.returncode == 0, errors.decode()
        assert said.split() == [b"1800", b"1800"]
