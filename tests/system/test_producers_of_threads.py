"""Producers of several threads, each on an event loop of its own, at once."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker


async def test_producers_of_several_threads_write_what_they_were_given(kafka_broker: DevBroker) -> None:
    count, records = 4, 400
    for number in range(count):
        kafka_broker.create_topic(f"t{number}", partitions=1)
    failed: list[BaseException] = []

    async def produce(number: int) -> None:
        options: dict[str, Any] = {"compression_type": ("none", "lz4", "zstd", "gzip")[number], "batch_size": 4_096}
        async with KafkaProducer(kafka_broker.bootstrap_servers, **options) as producer:
            for place in range(records):
                value = b"%d-%d-" % (number, place) * (1 + place % 50)
                await producer.enqueue(f"t{number}", value, key=b"%d" % place, headers=[("thread", b"%d" % number)])
                if place % 40 == 0:
                    await producer.send(f"t{number}", b"lone")

    def run(number: int) -> None:
        try:
            asyncio.run(produce(number))
        except BaseException as error:
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        started = [threading.Thread(target=run, args=(number,)) for number in range(count)]
        for one in started:
            one.start()
        for one in started:
            await asyncio.to_thread(one.join, 60)
    finally:
        sys.setswitchinterval(before)
    assert failed == []
    for number in range(count):
        found = [record for record in kafka_broker.records(f"t{number}") if record.value != b"lone"]
        wanted = [b"%d-%d-" % (number, place) * (1 + place % 50) for place in range(records)]
        assert [record.value for record in found] == wanted
        assert {record.headers for record in found} == {(("thread", b"%d" % number),)}
