"""A service that ends while the broker is away, and ``produce --resume``, as processes and in this one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from fastapi import FastAPI

from aiokafkapy import ProducerConfig, ProducerRecord
from aiokafkapy.broker import DevBroker
from aiokafkapy.cli.resume import MAX_UNCONFIRMED
from aiokafkapy.errors import RecordTooLargeError
from aiokafkapy.integrations.aiohttp import PRODUCER, setup_kafka
from aiokafkapy.integrations.fastapi import kafka_lifespan
from aiokafkapy.integrations.undelivered import UndeliveredRecords
from aiokafkapy.protocol.api import ApiKey


async def resume(broker: DevBroker, path: Path, *options: str, code: int = 0) -> dict[str, Any]:
    """Run the command; returns its summary."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aiokafkapy", "produce", "--resume", str(path), "--json", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"AIOKAFKAPY_BOOTSTRAP_SERVERS": broker.bootstrap_servers},
    )
    output, errors = await process.communicate()
    assert process.returncode == code, errors.decode()
    found: dict[str, Any] = json.loads(output)
    return found


async def test_records_that_fastapi_could_not_deliver_are_sent_later_and_only_once(
    kafka_broker: DevBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "undelivered.jsonl"
    kafka_broker.create_topic("t", partitions=1)
    app = FastAPI(lifespan=kafka_lifespan(kafka_broker.bootstrap_servers, drain_timeout=0.2, undelivered_path=path))
    async with app.router.lifespan_context(app):
        producer = app.state.kafka_producer
        await producer.send("t", b"delivered")
        kafka_broker.controls.stall_connections(True)
        for number in range(20):
            await producer.enqueue("t", str(number).encode(), key=b"k", headers=[("h", b"\xff")])
        waiting = asyncio.ensure_future(producer.send("unknown", b"never accepted"))
        await asyncio.sleep(0)
    await asyncio.wait([waiting])
    assert waiting.exception() is not None
    assert "kafka.undelivered_written" in caplog.text
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["value"] for line in lines] == [*map(str, range(20)), "never accepted"]
    kafka_broker.controls.clear()
    kafka_broker.controls.drop_connections()  # those requests are never read
    # Two of them are refused for good the first time.
    kafka_broker.controls.fail_next(ApiKey.PRODUCE, RecordTooLargeError, topic="unknown")
    assert await resume(kafka_broker, path, code=1) == {"file": str(path), "sent": 20, "failed": 1}
    assert await resume(kafka_broker, path) == {"file": str(path), "sent": 1, "failed": 0}
    found = kafka_broker.records("t", 0)
    assert [record.value for record in found[-20:]] == [str(number).encode() for number in range(20)]
    assert (found[-1].key, list(found[-1].headers)) == (b"k", [("h", b"\xff")])
    assert len(found) in (21, 41), "the first ones were written too, if the broker had read them"
    assert all(json.loads(line)["sent"] for line in path.read_text().splitlines())


async def test_after_a_kill_acknowledged_records_are_not_sent_again(kafka_broker: DevBroker, tmp_path: Path) -> None:
    path = tmp_path / "file"
    keeper = UndeliveredRecords(path, ProducerConfig(bootstrap_servers="h:1"))
    keeper.begin_closing()
    told = [keeper.track(ProducerRecord("t", str(number).encode()))[1] for number in range(3_000)]
    for outcome in told:
        outcome(None, RecordTooLargeError("no"))
    assert await keeper.write() == 3_000
    kafka_broker.create_topic("t", partitions=1)
    kafka_broker.controls.delay(ApiKey.PRODUCE, 0.1)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aiokafkapy", "produce", "--resume", str(path), "--quiet"),
        env=os.environ | {"AIOKAFKAPY_BOOTSTRAP_SERVERS": kafka_broker.bootstrap_servers},
    )
    async with asyncio.timeout(60):
        while True:
            if marked(path) >= MAX_UNCONFIRMED:
                break
            await asyncio.sleep(0.005)
    process.kill()
    await process.wait()
    already = marked(path)
    assert MAX_UNCONFIRMED <= already < 3_000, "the kill came in the middle"
    kafka_broker.controls.clear()
    assert (await resume(kafka_broker, path))["sent"] == 3_000 - already
    values = [record.value for record in kafka_broker.records("t", 0)]
    assert {int(value or b"") for value in values} == set(range(3_000))
    assert len(values) - 3_000 <= MAX_UNCONFIRMED, "only records that were not marked yet were sent again"


def marked(path: Path) -> int:
    return path.read_bytes().count(b'{"sent": true , ')


async def test_a_file_has_one_resumer_at_a_time_and_a_topic_is_not_given(
    kafka_broker: DevBroker, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    holding = (
        "import sys; from pathlib import Path\n"
        "from aiokafkapy.integrations.undelivered import UndeliveredFile\n"
        "with UndeliveredFile(Path(sys.argv[1])):\n    print(flush=True); sys.stdin.read()"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", holding, str(path)), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    other = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aiokafkapy", "produce", "--resume", str(path)), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await other.communicate()
    await process.communicate(b"")
    assert other.returncode == 1
    assert b"is being resumed by another process" in errors


async def test_aiohttp_writes_it_too_and_nothing_when_all_was_delivered(
    kafka_broker: DevBroker, tmp_path: Path
) -> None:
    for stalls in (False, True):
        path = tmp_path / str(stalls)
        app = web.Application()
        setup_kafka(app, kafka_broker.bootstrap_servers, drain_timeout=0.2, undelivered_path=path)
        runner = web.AppRunner(app)
        await runner.setup()
        await app[PRODUCER].send("t", b"1")
        kafka_broker.controls.stall_connections(stalls)
        await app[PRODUCER].enqueue("t", b"2")
        await runner.cleanup()
        kafka_broker.controls.stall_connections(False)
        assert path.exists() == stalls


async def test_a_cancelled_drain_writes_it_too(kafka_broker: DevBroker, tmp_path: Path) -> None:
    path = tmp_path / "file"
    app = FastAPI(lifespan=kafka_lifespan(kafka_broker.bootstrap_servers, drain_timeout=None, undelivered_path=path))
    is_served = asyncio.Event()

    async def serve() -> None:
        async with app.router.lifespan_context(app):
            producer = app.state.kafka_producer
            await producer.send("t", b"delivered")
            kafka_broker.controls.stall_connections(True)
            for number in range(5):
                await producer.enqueue("t", str(number).encode())
            is_served.set()

    serving = asyncio.ensure_future(serve())
    await is_served.wait()
    await asyncio.sleep(0.05)
    serving.cancel()  # as a second SIGTERM does
    await asyncio.wait([serving])
    assert serving.cancelled()
    assert [json.loads(line)["value"] for line in path.read_text().splitlines()] == [*"01234"]
