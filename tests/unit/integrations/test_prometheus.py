"""Producers' metrics in Prometheus' text format."""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.integrations import prometheus
from aiokafkapy.integrations.measurements import MEASUREMENTS, WatchedProducer
from aiokafkapy.integrations.prometheus import KafkaCollector, exposition, watch
from aiokafkapy.protocol.api import ApiKey


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def scraped(registry: CollectorRegistry) -> dict[tuple[str, tuple[str, ...]], float]:
    """Samples by name and label values."""
    text = generate_latest(registry).decode()
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_a_watched_producer_is_in_every_scrape_until_it_is_closed(
    kafka_broker: DevBroker, registry: CollectorRegistry
) -> None:
    async with KafkaProducer(kafka_broker.bootstrap_servers, client_id="web") as producer:
        watch(producer, registry)
        watch(producer, registry)
        await producer.send("t", b"v")
        found = scraped(registry)
        node_id = str(producer.statistics().nodes[0].node_id)
        assert found["kafka_producer_records_delivered_total", ("web",)] == 1
        assert found["kafka_producer_buffer_size_bytes", ("web",)] == producer.config.buffer_memory
        assert 0 < found["kafka_producer_request_latency_avg_seconds", ("web",)] < 10
        assert found["kafka_producer_node_connected", ("web", node_id)] == 1
        await producer.send("t", b"v")
        assert scraped(registry)["kafka_producer_records_delivered_total", ("web",)] == 2
    assert scraped(registry) == {}


async def test_names_keep_to_the_conventions_and_every_family_has_a_help_text(
    kafka_producer: KafkaProducer, registry: CollectorRegistry
) -> None:
    watch(kafka_producer, registry)
    text = generate_latest(registry).decode()
    families = list(text_string_to_metric_families(text))
    described = {family.name for family in KafkaCollector().describe()}
    assert len(families) >= len(MEASUREMENTS)
    for family in families:
        assert re.fullmatch(r"kafka_producer_[a-z_]+", family.name)
        assert family.documentation.endswith(".")
        assert not family.name.endswith(("_ms", "_milliseconds"))
        assert family.name in described
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter")
            assert sample.name.removesuffix("_total") == family.name.removesuffix("_total")


async def test_errors_have_a_series_for_each_class(
    kafka_broker: DevBroker, kafka_producer: KafkaProducer, registry: CollectorRegistry
) -> None:
    watch(kafka_producer, registry)
    kafka_broker.controls.fail_next(ApiKey.PRODUCE, errors.RecordTooLargeError)
    with pytest.raises(errors.RecordTooLargeError):
        await kafka_producer.send("t", b"v")
    client_id = kafka_producer.config.client_id
    assert scraped(registry)["kafka_producer_errors_total", (client_id, "RecordTooLargeError")] == 1
    assert scraped(registry)["kafka_producer_record_error_total", (client_id,)] == 1


async def test_producers_of_one_client_id_make_one_series(kafka_broker: DevBroker, registry: CollectorRegistry) -> None:
    servers = kafka_broker.bootstrap_servers
    async with KafkaProducer(servers, client_id="x") as one, KafkaProducer(servers, client_id="x") as other:
        for producer in (one, other):
            watch(producer, registry)
            await producer.send("t", b"v")
        names = Counter(
            line.rpartition(" ")[0]
            for line in generate_latest(registry).decode().splitlines()
            if not line.startswith("#")
        )
        assert set(names.values()) == {1}
        found = scraped(registry)
        assert found["kafka_producer_records_delivered_total", ("x",)] == 2
        assert found["kafka_producer_connections", ("x",)] == 4, "two of them are to the bootstrap address"
        slowest = max(each.metrics()["request-latency-max"] for each in (one, other))
        assert found["kafka_producer_request_latency_max_seconds", ("x",)] == pytest.approx(slowest / 1000)


async def test_a_scrape_reads_each_producer_once_and_makes_a_few_dozen_samples(
    kafka_producer: KafkaProducer, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of a scrape, by count: some 70 samples, of one reading, are less than a millisecond."""
    watch(kafka_producer, registry)
    calls = []
    profiled = sys.getprofile()
    sys.setprofile(lambda frame, event, arg: calls.append(event) if event in ("call", "c_call") else None)
    try:
        families = list(registry.collect())
    finally:
        sys.setprofile(profiled)
    assert sum(len(family.samples) for family in families) < 75
    assert len(calls) < 3000  # 0.1 µs to 0.3 µs each


async def test_topics_have_series_where_they_are_asked_for(
    kafka_broker: DevBroker, registry: CollectorRegistry
) -> None:
    async with KafkaProducer(kafka_broker.bootstrap_servers, client_id="x", metrics_topics_max=1) as producer:
        watch(producer, registry)
        for topic in ("a", "b"):
            await producer.send(topic, b"v")
        found = scraped(registry)
    assert found["kafka_producer_topic_record_send_total", ("x", "a")] == 1
    assert found["kafka_producer_topic_record_send_total", ("x", "*")] == 1


async def test_the_default_registry_is_the_one_of_prometheus(kafka_producer: KafkaProducer) -> None:
    watch(kafka_producer)
    body, content_type = exposition()
    assert b"kafka_producer_records_accepted_total{" in body
    assert content_type.startswith("text/plain")


def test_a_missing_library_is_named_with_its_extra() -> None:
    program = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "try:\n    import aiokafkapy.integrations.prometheus\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'aiokafkapy[prometheus]'" in done.stdout


PROCESS = """
import asyncio, os, sys
from aiokafkapy import KafkaProducer
from aiokafkapy.integrations.prometheus import exposition, watch

async def main():
    async with KafkaProducer(sys.argv[1], client_id="worker") as producer:
        watch(producer)
        await producer.send_many("t", [b"v"] * int(sys.argv[2]))
        print(exposition()[0].decode() + "# end", flush=True)
        sys.stdin.read()

asyncio.run(main())
"""


async def test_a_scrape_of_one_process_has_the_numbers_of_all(kafka_broker: DevBroker, tmp_path: Path) -> None:
    environment = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for count in (3, 5):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PROCESS,
            kafka_broker.bootstrap_servers,
            str(count),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )
        try:
            text = b""
            assert process.stdout is not None
            while not text.endswith(b"# end\n"):
                line = await process.stdout.readline()
                assert line, text
                text += line
        finally:
            await process.communicate(b"")
        assert process.returncode == 0
        families = {each.name: each for each in text_string_to_metric_families(text.decode())}
        assert families["kafka_producer_records_delivered"].samples[0].value == {3: 3, 5: 8}[count]
        assert families["kafka_producer_connections"].samples[0].value == 2, "of the living ones"


async def test_producers_that_are_closed_and_dropped_between_two_writes_are_in_the_files(
    kafka_broker: DevBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    mirror = prometheus.MultiprocessMirror()
    monkeypatch.setitem(prometheus._mirrors, os.getpid(), mirror)
    for _ in range(2):
        async with KafkaProducer(kafka_broker.bootstrap_servers, client_id="short") as producer:
            watch(producer)
            await producer.send("t", b"v")
        del producer
    mirror.update()
    delivered = mirror._metrics["records_delivered"].labels("short")
    assert next(iter(delivered.collect())).samples[0].value == 2
    atexit.unregister(mirror.update)


async def test_a_disk_that_is_full_for_a_while_does_not_end_the_mirror(
    kafka_producer: KafkaProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror, loop = prometheus.MultiprocessMirror(), asyncio.get_running_loop()
    monkeypatch.setattr(prometheus, "MIRROR_INTERVAL", 0.0)
    written: asyncio.Queue[None] = asyncio.Queue()

    def update(watched: object) -> None:
        written.put_nowait(None)
        if written.qsize() == 1:
            raise OSError("No space left on device")

    monkeypatch.setattr(mirror, "_update", update)
    loop.set_exception_handler(lambda loop, context: None)  # the exception of a callback
    watched = WatchedProducer(kafka_producer)
    mirror._latest[watched] = None
    loop.call_soon(mirror._tick, watched, loop)
    async with asyncio.timeout(10):
        await written.get()
        await written.get()
    mirror._latest.clear()
    atexit.unregister(mirror.update)
