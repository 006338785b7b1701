"""Our producer with faults of the broker and of the network, recorded, and played again to a new producer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import FaultProxy, Recording, ReplayBroker, ReplayMismatchError
from tests.system.recorded_secrets import encodings, file_contents

TOPIC = "orders"
PASSWORD = "correct horse battery staple"
COUNTED = (
    "record-send-total",
    "record-retry-total",
    "record-error-total",
    "connection-creation-total",
    "connection-close-total",
)


async def story(servers: str, before: Callable[[int], object] = lambda _: None) -> dict[str, Any]:
    """All that a producer is told, and tells, while it sends."""
    told: dict[str, Any] = {"offsets": []}
    async with KafkaProducer(servers, client_id="shop", retry_backoff_ms=20) as producer:
        for number in range(6):
            before(number)
            metadata = await producer.send(TOPIC, b"order %d" % number, key=b"key", headers=[("n", b"%d" % number)])
            told["offsets"].append((metadata.partition, metadata.offset))
        with pytest.raises(errors.TopicAuthorizationFailedError) as caught:
            await producer.send("secrets", b"mine")
        told["error"] = str(caught.value)
        metrics = producer.metrics()
        told["metrics"] = {name: metrics[name] for name in COUNTED}
        told["throttled"] = metrics["produce-throttle-time-max"]
        statistics = producer.statistics()
        told["statistics"] = {"buffered": statistics.buffered_bytes, "nodes": len(statistics.nodes)}
    return told


async def recorded(file: Path, **options: Any) -> dict[str, Any]:
    """The story with every kind of fault."""
    async with DevBroker() as broker, FaultProxy(broker.bootstrap_servers, record=file, **options) as proxy:
        broker.create_topic(TOPIC)
        controls = broker.controls
        controls.fail_next(ApiKey.METADATA, errors.TopicAuthorizationFailedError, topic="secrets", times=None)
        controls.throttle("shop", 5)

        def before(number: int) -> None:
            if number == 1:
                controls.fail_next(ApiKey.PRODUCE, errors.NotLeaderOrFollowerError, topic=TOPIC)
            elif number == 2:
                proxy.truncate(ApiKey.PRODUCE, 9)  # cut in the middle of an answer
            elif number == 3:
                proxy.drop_next(ApiKey.PRODUCE)  # written, and the answer is lost
            elif number == 4:
                proxy.drop_next(ApiKey.PRODUCE, after=False)

        return await story(proxy.bootstrap_servers, before)


@pytest.mark.parametrize("hashed", [False, True], ids=["kept", "hashed"])
async def test_a_producer_meets_the_same_errors_retries_offsets_and_numbers_each_time(
    tmp_path: Path, hashed: bool
) -> None:
    file = tmp_path / "bug.jsonl"
    told = await recorded(file, hash_payloads=hashed)
    assert told["offsets"] == [(0, number) for number in range(6)]
    assert told["metrics"]["record-retry-total"] == 4
    assert told["metrics"]["connection-close-total"] >= 3
    assert told["throttled"] == 5
    for speed in (1.0, None, None):
        async with ReplayBroker(file, speed=speed) as broker:
            assert await story(broker.bootstrap_servers) == told
            broker.check()
            assert broker.unplayed == []
    assert (b"order 3" in file_contents(file)) is not hashed


async def test_a_producer_that_does_something_else_is_told_where(tmp_path: Path) -> None:
    file = tmp_path / "bug.jsonl"
    async with (
        DevBroker() as broker,
        FaultProxy(broker.bootstrap_servers, record=file) as proxy,
        KafkaProducer(proxy.bootstrap_servers) as producer,
    ):
        await producer.send(TOPIC, b"one")
    async with ReplayBroker(file, speed=None) as replay:
        async with KafkaProducer(
            replay.bootstrap_servers, delivery_timeout_ms=500, request_timeout_ms=400, linger_ms=0
        ) as producer:
            with pytest.raises(errors.KafkaError):
                await producer.send(TOPIC, b"two")
        with pytest.raises(ReplayMismatchError, match="value is b'two', and b'one' in the recording"):
            replay.check()


async def test_transactions_are_played_again(tmp_path: Path) -> None:
    file = tmp_path / "bug.jsonl"

    async def story(servers: str) -> list[int]:
        offsets = []
        async with KafkaProducer(servers, transactional_id="shop") as producer:
            for ends_well in (True, False):
                await producer.begin_transaction()
                offsets.append((await producer.send(TOPIC, b"order")).offset)
                await (producer.commit_transaction() if ends_well else producer.abort_transaction())
        return offsets

    async with DevBroker(nodes=3) as broker, FaultProxy(broker.bootstrap_servers, record=file) as proxy:
        broker.create_topic(TOPIC)
        told = await story(proxy.bootstrap_servers)
    for speed in (1.0, None):
        async with ReplayBroker(file, speed=speed) as replay:
            assert await story(replay.bootstrap_servers) == told
            replay.check()
            assert replay.unplayed == []


async def test_no_encoding_of_a_password_is_in_a_recording_and_it_is_played_with_another_and_without_one(
    tmp_path: Path,
) -> None:
    file = tmp_path / "bug.jsonl"
    sasl: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": PASSWORD,
    }
    options: dict[str, Any] = {"listeners": {"SASL_PLAINTEXT": "SASL_PLAINTEXT://127.0.0.1:0"}}
    async with (
        DevBroker(sasl_users={"alice": PASSWORD}, **options) as broker,
        FaultProxy(broker.bootstrap_servers, record=file) as proxy,
        KafkaProducer(proxy.bootstrap_servers, **sasl) as producer,
    ):
        await producer.send(TOPIC, b"order")
    assert ApiKey.SASL_AUTHENTICATE in {exchange.api_key for exchange in Recording.read(file).exchanges}
    contents = file_contents(file)
    assert b"order" in contents
    for secret in encodings(PASSWORD):
        assert secret not in contents
    for given in (sasl, sasl | {"sasl_password": "another"}, {}):
        async with ReplayBroker(file, speed=None) as replay:
            async with KafkaProducer(replay.bootstrap_servers, **given) as producer:
                assert (await producer.send(TOPIC, b"order")).offset == 0
            replay.check()


async def test_a_recording_with_other_names_is_played_to_a_client_that_uses_those(tmp_path: Path) -> None:
    file = tmp_path / "bug.jsonl"
    options: dict[str, Any] = {"hide_names": ["of-ann", "shop-client"], "hash_payloads": True}
    async with DevBroker() as broker, FaultProxy(broker.bootstrap_servers, record=file, **options) as proxy:
        async with KafkaProducer(proxy.bootstrap_servers, client_id="shop-client") as producer:
            await producer.send("orders-of-ann", b"order")
        assert proxy.recorder is not None
        topic = proxy.recorder.hiding.text("orders-of-ann")
    for name in (b"of-ann", b"shop-client"):
        assert name not in file_contents(file)
    assert topic in file.read_text()
    async with ReplayBroker(file, speed=None) as replay:
        async with KafkaProducer(replay.bootstrap_servers) as producer:
            assert (await producer.send(topic, b"other")).offset == 0
        replay.check()


async def test_a_recording_that_cannot_be_written_is_an_error_and_leaves_no_port(tmp_path: Path) -> None:
    async with DevBroker() as broker:
        with pytest.raises(FileNotFoundError):
            async with FaultProxy(broker.bootstrap_servers, record=tmp_path / "none" / "bug.jsonl"):
                pass
        with pytest.raises(OSError, match="No space left"):
            async with (
                FaultProxy(broker.bootstrap_servers, record="/dev/full") as proxy,
                KafkaProducer(proxy.bootstrap_servers) as producer,
            ):
                assert (await producer.send(TOPIC, b"order")).offset == 0
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*proxy.bootstrap_servers.split(":"))


async def test_a_client_that_speaks_tls_is_counted_and_a_port_may_be_chosen(tmp_path: Path) -> None:
    async with DevBroker() as broker:
        async with FaultProxy(broker.bootstrap_servers) as first:
            port = int(first.bootstrap_servers.rpartition(":")[2])
        async with FaultProxy(broker.bootstrap_servers, port=port, record=tmp_path / "bug.jsonl") as proxy:
            assert proxy.bootstrap_servers == f"127.0.0.1:{port}"
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            assert await reader.read(1) == b""
            writer.close()
            assert proxy.strangers == 1
        with pytest.raises(ValueError, match="port=-1: write 0 to 65535"):
            FaultProxy(broker.bootstrap_servers, port=-1)
        with pytest.raises(ValueError, match="max_bytes=0: write 1 or more"):
            FaultProxy(broker.bootstrap_servers, max_bytes=0)
        with pytest.raises(ValueError, match="name to hide 'me'"):
            async with FaultProxy(broker.bootstrap_servers, record=tmp_path / "bug.jsonl", hide_names=["me"]):
                pass
