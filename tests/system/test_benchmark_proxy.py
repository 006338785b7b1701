"""The proxy of the benchmarks: it delays, it stalls, and clients that ask for the broker's address come back to it."""

from __future__ import annotations

import asyncio

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker

pytest.importorskip("uvloop")  # the proxy is a program of its own, which runs on it

from benchmarks.macro.proxy import DelayingProxy

DELAY = 0.02


async def proxy_of(broker: DevBroker, delay: float) -> tuple[DelayingProxy, str]:
    host, _, port = broker.bootstrap_servers.partition(":")
    proxy = DelayingProxy(host, int(port), delay)
    return proxy, await proxy.listen()


async def close(proxy: DelayingProxy) -> None:
    proxy.close()
    while proxy.ends:  # noqa: ASYNC110 - their connection_lost comes by itself
        await asyncio.sleep(0)


async def test_every_byte_is_held_back_each_way_and_clients_stay_behind_it() -> None:
    async with DevBroker() as broker:
        broker.create_topic("t", partitions=1)
        proxy, address = await proxy_of(broker, DELAY)
        async with KafkaProducer(address) as producer:
            await producer.send("t", b"first")
            assert {f"{node.host}:{node.port}" for node in producer.statistics().nodes} == {address}
            loop = asyncio.get_running_loop()
            before = loop.time()
            await asyncio.gather(*(producer.send("t", b"%d" % number) for number in range(8)))
            assert loop.time() - before >= 2 * DELAY - 0.002  # uvloop's clock has milliseconds
        assert sorted(record.value or b"" for record in broker.records("t", partition=0)) == [
            *(b"%d" % number for number in range(8)),
            b"first",
        ]
        await close(proxy)


async def test_nothing_moves_while_it_is_stalled() -> None:
    async with DevBroker() as broker:
        broker.create_topic("t", partitions=1)
        proxy, address = await proxy_of(broker, 0)
        broker.create_topic("elsewhere", partitions=1)
        async with KafkaProducer(address) as producer, KafkaProducer(broker.bootstrap_servers) as beside:
            await producer.send("t", b"before")
            assert proxy.command("stall") == {"stalled": True}
            sending = asyncio.create_task(producer.send("t", b"meanwhile"))
            for _ in range(20):  # round trips that the broker serves meanwhile
                await beside.send("elsewhere", b"")
            assert producer.statistics().in_flight_batches == 1
            assert len(broker.records("t", partition=0)) == 1
            proxy.command("resume")
            assert (await sending).offset == 1
        await close(proxy)
