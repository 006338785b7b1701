"""The table of measurements against producers' metrics, and reading a producer from any thread."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.integrations import measurements
from aiokafkapy.integrations.measurements import (
    MEASUREMENTS,
    NODE_MEASUREMENTS,
    TOPIC_MEASUREMENTS,
    WatchedProducer,
    WatchedProducers,
    merged,
    snapshot_of,
)

LEFT_OUT = frozenset(
    {
        "batch-split-rate",
        "buffer-exhausted-rate",
        "bufferpool-wait-ratio",
        "connection-close-rate",
        "connection-creation-rate",
        "failed-authentication-rate",
        "failed-reauthentication-rate",
        "incoming-byte-rate",
        "network-io-rate",
        "outgoing-byte-rate",
        "record-error-rate",
        "record-retry-rate",
        "record-send-rate",
        "request-rate",
        "response-rate",
        "successful-authentication-rate",
        "successful-reauthentication-rate",
    }
)
"""The names of ``metrics()`` that are left out: a monitoring system makes rates, such as ``bufferpool-wait-ratio``."""
OF_STATISTICS = {"pending-records", "oldest-record-age", "unhealthy"}


async def test_every_metric_of_a_producer_is_in_the_table_or_left_out(kafka_producer: KafkaProducer) -> None:
    await kafka_producer.send("t", b"v")
    names = {name for name in kafka_producer.metrics() if not name.startswith("error-total.")}
    assert {each.kafka for each in MEASUREMENTS} - OF_STATISTICS == names - LEFT_OUT
    assert names >= LEFT_OUT
    assert len({each.name for each in MEASUREMENTS}) == len(MEASUREMENTS)


async def test_every_metric_of_a_producer_is_in_the_documentation(kafka_producer: KafkaProducer) -> None:
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    rows = page[page.index("## Names") : page.index("## Prometheus")]
    told = set()
    for first, ends in re.findall(r"`([a-z-]+)`((?:, `-[a-z]+`)*)", rows):
        told |= {first, *(first.rpartition("-")[0] + end for end in re.findall(r"-[a-z]+", ends))}
    assert {name for name in kafka_producer.metrics() if not name.startswith("error-total.")} - told == set()


async def test_times_since_the_start_are_seconds(kafka_producer: KafkaProducer) -> None:
    await kafka_producer.send("t", b"v")
    await kafka_producer.flush()
    metrics, values = kafka_producer.metrics(), snapshot_of(kafka_producer).values
    assert values["metadata_wait_time"] == pytest.approx(metrics["metadata-wait-time-ns-total"] / 1e9)
    assert values["flush_time"] == pytest.approx(metrics["flush-time-ns-total"] / 1e9)
    assert metrics["metadata-wait-time-ns-total"] > 0 < metrics["flush-time-ns-total"]


async def test_numbers_are_in_seconds_and_bytes(kafka_producer: KafkaProducer) -> None:
    for _ in range(3):
        await kafka_producer.send("t", b"v" * 1000)
    metrics, values = kafka_producer.metrics(), snapshot_of(kafka_producer).values
    assert values["request_latency_max"] == pytest.approx(metrics["request-latency-max"] / 1000)
    assert values["batch_size_max"] == metrics["batch-size-max"] > 1000
    assert (values["records_delivered"], values["pending_records"], values["unhealthy"]) == (3, 0, 0)
    (node,) = snapshot_of(kafka_producer).nodes.values()
    assert node == {"node_connected": 1, "node_requests_in_flight": 0}


async def test_numbers_of_nodes_and_topics_come_with_their_options(kafka_broker: DevBroker) -> None:
    servers = kafka_broker.bootstrap_servers
    options: dict[str, Any] = {"max_in_flight_requests_per_connection": "auto", "metrics_topics_max": 1}
    async with KafkaProducer(servers, metrics_per_node=True, **options) as producer:
        for topic in ("a", "b", "c"):
            await producer.send(topic, b"v")
        found = snapshot_of(producer)
        (node_id,) = found.nodes
        assert set(found.nodes[node_id]) == {each.name for each in NODE_MEASUREMENTS}
        known = {each.kafka for each in NODE_MEASUREMENTS} - {"connected", "in-flight"}
        assert {name for name in producer.node_metrics()[node_id] if not name.endswith("-rate")} == known
        known = {each.kafka for each in TOPIC_MEASUREMENTS}
        rates = {"record-send-rate", "byte-rate", "record-retry-rate", "record-error-rate"}
        assert set(producer.topic_metrics()["a"]) - rates == known
    assert {topic: each["topic_record_send"] for topic, each in found.topics.items()} == {"a": 1, "*": 2}
    latency = found.nodes[node_id]["node_request_latency_max"]
    assert 0 < latency < 10


async def test_producers_of_one_client_id_are_made_one(kafka_broker: DevBroker) -> None:
    servers = kafka_broker.bootstrap_servers
    async with (
        KafkaProducer(servers, metrics_topics_max=5) as one,
        KafkaProducer(servers, metrics_topics_max=5) as other,
        KafkaProducer(servers, client_id="third") as third,
    ):
        await one.send("a", b"v")
        await other.send("a", b"v")
        await other.send("b", b"v")
        single = [snapshot_of(each) for each in (one, other, third)]
        both, alone = merged(single)
    assert alone.client_id == "third"
    assert {topic: each["topic_record_send"] for topic, each in both.topics.items()} == {"a": 2, "b": 1}
    assert both.values["records_delivered"] == 3
    assert both.values["loop_lag_max"] == max(each.values["loop_lag_max"] for each in single[:2])
    (node,) = both.nodes.values()
    assert node == {"node_connected": 1, "node_requests_in_flight": 0}


async def test_another_thread_reads_on_the_producer_s_loop(
    kafka_producer: KafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def snapshot(producer: Any) -> measurements.Snapshot:
        threads.append(threading.current_thread())
        return snapshot_of(producer)

    monkeypatch.setattr(measurements, "snapshot_of", snapshot)
    watched = WatchedProducer(kafka_producer)
    await kafka_producer.send("t", b"v")
    found = await asyncio.to_thread(watched.read)
    assert found is not None
    assert found.values["connections"] == 2, "one of them is to the bootstrap address"
    assert threads == [threading.current_thread()]


async def test_a_busy_loop_leaves_a_scrape_with_the_last_numbers(
    kafka_producer: KafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurements, "PATIENCE", 0.01)
    watched = WatchedProducer(kafka_producer)
    known = watched.read()
    await kafka_producer.send("t", b"v")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(watched.read()))
    thread.start()
    thread.join()  # on the loop, which is therefore busy
    assert found == [known]
    assert known is not None
    assert known.values["records_delivered"] == 0


async def test_a_producer_is_held_weakly_and_gone_when_closed(kafka_broker: DevBroker) -> None:
    producer = KafkaProducer(kafka_broker.bootstrap_servers)
    watched = WatchedProducer(producer)
    async with producer:
        assert watched.read() is not None
        await producer.send("t", b"v")
    del producer
    gc.collect()
    assert watched.producer is None
    assert watched.read() is None
    last = watched.read_last()
    assert last is not None, "of its end, though nobody has read it since the first record"
    assert last.values["records_delivered"] == 1


async def test_counters_do_not_fall_when_one_of_two_producers_is_closed(kafka_broker: DevBroker) -> None:
    watched = WatchedProducers()
    options: dict[str, Any] = {"client_id": "x", "metrics_topics_max": 5}
    async with KafkaProducer(kafka_broker.bootstrap_servers, **options) as lasting:
        watched.watch(lasting)
        size = lasting.config.buffer_memory
        for expected in (1, 2):
            async with KafkaProducer(kafka_broker.bootstrap_servers, **options) as other:
                watched.watch(other)
                await other.send("t", b"v")
                (both,) = watched.read()
                assert (both.values["records_delivered"], both.values["buffer_size"]) == (expected, 2 * size)
            del other
            (both,) = watched.read()
            assert (both.values["records_delivered"], both.values["buffer_size"]) == (expected, size)
            assert both.values["unhealthy"] == 0
            assert both.topics["t"]["topic_record_send"] == expected
            assert "topic_compression_ratio" not in both.topics["t"]
    assert watched.read() == [], "a series ends with the last of its producers"
    async with KafkaProducer(kafka_broker.bootstrap_servers, **options) as again:
        watched.watch(again)
        assert [each.values["records_delivered"] for each in watched.read()] == [0]


async def test_a_scrape_during_another_that_finds_a_producer_closed_counts_it_once(
    kafka_broker: DevBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = WatchedProducers()
    async with KafkaProducer(kafka_broker.bootstrap_servers) as lasting:
        other = KafkaProducer(kafka_broker.bootstrap_servers)
        await other.start()
        for producer in (lasting, other):
            watched.watch(producer)
            await producer.send("t", b"v")
        known = snapshot_of(other)
        await other.close()
        read = WatchedProducer.read

        def late(self: WatchedProducer) -> measurements.Snapshot | None:
            """The first scrape has the numbers, and another scrape is faster."""
            if self.producer is not other:
                return read(self)
            monkeypatch.setattr(WatchedProducer, "read", read)
            assert [each.values["records_delivered"] for each in watched.read()] == [2]
            return known

        monkeypatch.setattr(WatchedProducer, "read", late)
        assert [each.values["records_delivered"] for each in watched.read()] == [2]


def test_without_an_event_loop_it_says_where_to_call() -> None:
    with pytest.raises(RuntimeError, match=r"call this in a coroutine, after start\(\)"):
        WatchedProducer(KafkaProducer("h:1"))
