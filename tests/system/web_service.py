"""A web service in a process of its own, under load, until SIGTERM: the common part of both frameworks' tests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from aiokafkapy.broker import DevBroker
from aiokafkapy.testing.servers.ports import free_port

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE = 60.0


class WebService:
    """The running process and the URL it serves."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"

    def terminate(self) -> None:
        """SIGTERM, as an orchestrator sends it."""
        self.process.send_signal(signal.SIGTERM)

    async def ended(self) -> tuple[int, str]:
        """The exit status, and the output of the process."""
        output, _ = await asyncio.wait_for(self.process.communicate(), PATIENCE)
        assert self.process.returncode is not None
        return self.process.returncode, output.decode()


@contextlib.asynccontextmanager
async def web_service(
    broker: DevBroker, command: Sequence[str], **environment: str
) -> AsyncIterator[tuple[WebService, aiohttp.ClientSession]]:
    """Run ``python COMMAND`` in examples/, with {port} filled in, and wait until it is ready."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(part.format(port=port) for part in command),
        cwd=EXAMPLES,
        env={**os.environ, "AIOKAFKAPY_BOOTSTRAP_SERVERS": broker.bootstrap_servers, "PORT": str(port), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    service = WebService(process, port)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            await _until_ready(service, session)
            yield service, session
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def _until_ready(service: WebService, session: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if service.process.returncode is not None:
                raise AssertionError(f"the service ended while starting: {await service.ended()}")
            try:
                async with session.get(f"{service.url}/readyz") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.02)


class Load:
    """Workers that post until the service refuses, and the answers that they got."""

    def __init__(self, service: WebService, session: aiohttp.ClientSession) -> None:
        self._service = service
        self._session = session
        self.placed: dict[tuple[int, int], bytes] = {}
        self.clicked: list[bytes] = []
        self.refused = 0

    async def until_refused(self, workers: int, terminate_after: int) -> None:
        """Post from all workers at once; after so many answers terminate the service, and go on until it is gone."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(self._work(number, terminate_after) for number in range(workers)))

    async def _work(self, worker: int, terminate_after: int) -> None:
        number = 0
        try:
            while True:
                number += 1
                if worker % 2:
                    await self._place(worker, number)
                else:
                    await self._click(worker, number)
                if len(self.placed) + len(self.clicked) == terminate_after:
                    self._service.terminate()
        except aiohttp.ClientConnectionError:
            self.refused += 1

    async def _place(self, worker: int, number: int) -> None:
        order = {"customer": f"worker-{worker}", "item": f"{number}"}
        async with self._session.post(f"{self._service.url}/orders", json=order) as answer:
            assert answer.status == 200, await answer.text()
            accepted: dict[str, Any] = await answer.json()
            self.placed[accepted["partition"], accepted["offset"]] = json.dumps(order).encode()

    async def _click(self, worker: int, number: int) -> None:
        click = f"{worker}:{number}".encode()
        async with self._session.post(f"{self._service.url}/clicks", data=click) as answer:
            assert answer.status == 202, await answer.text()
            self.clicked.append(click)


async def assert_nothing_is_lost_at_sigterm(broker: DevBroker, service: WebService, session: Any) -> None:
    """Load the service, terminate it, and compare the callers' answers with the broker's records."""
    broker.create_topic("orders", partitions=3)
    broker.create_topic("clicks", partitions=1)
    load = Load(service, session)
    await load.until_refused(workers=40, terminate_after=1000)
    status, output = await service.ended()
    assert status in (0, -signal.SIGTERM), output
    assert "Traceback" not in output
    assert load.refused == 40
    # Both kinds were really under way when the signal came.
    assert len(load.placed) > 200
    assert len(load.clicked) > 200
    on_broker = {
        (partition, record.offset): json.loads(record.value or b"")
        for partition in range(3)
        for record in broker.records("orders", partition)
    }
    for place, value in load.placed.items():
        assert on_broker[place] == json.loads(value)
    clicks = [record.value for record in broker.records("clicks", 0)]
    assert set(load.clicked) <= set(clicks)
    assert len(clicks) == len(set(clicks)), "a click was written twice"
