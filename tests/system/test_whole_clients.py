"""Clients that do all in one process, unchanged, on the dev broker: kafkajs, rdkafka, kafka-python, aiokafka.

They administer, produce, consume in a group of ten members that come and go, commit and resume. franz-go and kcat do so
in tests of their own, Java's and librdkafka's in several.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import Any

import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from tests.foreign_programs import SOURCES, kafkajs_modules, rdkafka_program

from .whole_clients import check, said_by

# kafka-python's admin asks for the metadata of the topic that it has deleted, and would have it made again.
CLUSTER: dict[str, Any] = {"nodes": 3, "auto_create_topics_enable": False}
PYTHON = (sys.executable, "-X", "faulthandler", "-m", "tests.system.whole_client_programs")


@pytest.mark.timeout(300)
async def test_kafkajs_does_all() -> None:
    modules = kafkajs_modules()
    node = shutil.which("node") or "node"
    program = str(SOURCES / "kafkajs" / "clients.js")
    quiet = {"NODE_PATH": str(modules), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    async with DevBroker(**CLUSTER) as broker:
        check(broker, await said_by(node, program, broker.bootstrap_servers, **quiet), "kafkajs")


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_rdkafka_does_all(protocol: str) -> None:
    program = await asyncio.to_thread(rdkafka_program)
    # It describes groups as classic ones only, and those of the new protocol are dead then, as with Kafka.
    described = ("Stable", 10) if protocol == "classic" else ("Dead", 0)
    async with DevBroker(**CLUSTER) as broker:
        said = await said_by(str(program), broker.bootstrap_servers, protocol)
        check(broker, said, "rdkafka", described=described)
        beats = broker.controls.request_count(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        assert (beats > 0) == (protocol == "consumer")


async def test_kafka_python_does_all() -> None:
    async with DevBroker(**CLUSTER) as broker:
        check(broker, await said_by(*PYTHON, "kafka-python", broker.bootstrap_servers), "kafka-python")


async def test_aiokafka_does_all_but_delete_its_group() -> None:
    """Its members give all partitions up in a rebalance, and may read a record twice."""
    async with DevBroker(**CLUSTER) as broker:
        said = await said_by(*PYTHON, "aiokafka", broker.bootstrap_servers)
        check(broker, said, "aiokafka", reads_once=False, deletes_group=False)
