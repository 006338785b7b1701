"""The example under gunicorn: several workers, and one scrape that has the numbers of all."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from aiokafkapy.broker import DevBroker

from .web_service import PATIENCE, web_service

ORDERS = 40
COMMAND = (
    "-m gunicorn metrics_service:create_app -k aiohttp.GunicornWebWorker -w 2 "
    "-b 127.0.0.1:{port} -c metrics_service.py --graceful-timeout 5 --log-level warning"
)


async def scraped(session: aiohttp.ClientSession, url: str) -> dict[str, float]:
    async with session.get(f"{url}/metrics") as answer:
        assert answer.status == 200
        text = await answer.text()
    return {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}


def workers(directory: Path) -> set[str]:
    """The processes that have written counters."""
    return {path.stem.rpartition("_")[2] for path in directory.glob("counter_*.db")}


@pytest.mark.skipif(sys.platform == "win32", reason="gunicorn needs fork")
async def test_a_scrape_of_any_gunicorn_worker_has_the_counts_of_all(kafka_broker: DevBroker, tmp_path: Path) -> None:
    async with web_service(
        kafka_broker, COMMAND.split(), PROMETHEUS_MULTIPROC_DIR=str(tmp_path), AIOKAFKAPY_CLIENT_ID="shop"
    ) as (service, _):
        ordered = 0
        async with asyncio.timeout(PATIENCE):
            while ordered < ORDERS or len(workers(tmp_path)) < 2:
                # A connection each: whichever worker is quicker takes it.
                async with (
                    aiohttp.ClientSession() as session,
                    session.post(f"{service.url}/orders", data=f"{ordered}") as answer,
                ):
                    assert answer.status == 200
                ordered += 1
        delivered = 0.0
        # The other worker writes its numbers every few seconds.
        async with asyncio.timeout(PATIENCE):
            while delivered < ordered:
                async with aiohttp.ClientSession() as session:
                    found = await scraped(session, service.url)
                delivered = found["kafka_producer_records_delivered_total"]
                await asyncio.sleep(0.1)
        assert delivered == ordered
        assert found["kafka_producer_connections"] >= 1
        service.terminate()
        status, output = await service.ended()
        assert status == 0, output
    assert len(kafka_broker.records("orders")) == ordered
