"""Snapshots of a producer that is not there, idle, busy, or in trouble."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from aiokafkapy.errors import KafkaError, ProducerFencedError, SaslAuthenticationFailedError, SenderCrashedError
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.intake.partitioners import DefaultPartitioner
from aiokafkapy.producer.runtime import ProducerRuntime
from aiokafkapy.producer.state import ProducerState
from aiokafkapy.producer.statistics import ProducerStatistics, health_of, metrics_of, statistics_of

from .sender_fakes import cluster_of


@pytest.fixture
async def runtime() -> AsyncIterator[ProducerRuntime]:
    """A runtime that is connected to nothing (the port is closed) but believes in a cluster."""
    config = ProducerConfig(bootstrap_servers="127.0.0.1:1")
    runtime = ProducerRuntime(config, DefaultPartitioner(), asyncio.get_running_loop())
    runtime.metadata.cluster = cluster_of({"t": [1]})
    yield runtime
    await runtime.close(0.0)


def test_without_a_life_there_are_only_zeros() -> None:
    assert statistics_of(None) == ProducerStatistics()
    assert metrics_of(None) == {}
    health = health_of(ProducerState.NEW, None)
    assert not health.is_healthy
    assert health.state == "new"


async def test_numbers_are_read_off_the_parts(runtime: ProducerRuntime) -> None:
    runtime.accumulator.appender.append("t", 0, 1, None, b"x", None, runtime.now(), runtime.metadata.cluster)
    found = statistics_of(runtime)
    assert (found.accepted, found.pending, found.batches, found.waiters) == (1, 1, 1, 0)
    assert found.buffered_bytes > 0
    assert [node.node_id for node in found.nodes] == [1, 2]
    assert found.connected_nodes == ()
    metrics = metrics_of(runtime)
    assert metrics["records-accepted-total"] == 1
    assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"] - found.buffered_bytes
    assert metrics["connection-count"] == 0
    runtime.client.connection_counts.created.record(runtime.now())
    metrics = metrics_of(runtime)
    assert (metrics["connection-creation-total"], metrics["connection-close-total"]) == (1, 0)
    assert metrics["connection-count"] == 1
    assert metrics["connection-creation-rate"] == pytest.approx(1 / 30, rel=0.1)


JAVA_S: Final = frozenset(
    [
        "batch-size-avg",
        "batch-size-max",
        "batch-split-rate",
        "batch-split-total",
        "buffer-available-bytes",
        "buffer-exhausted-rate",
        "buffer-exhausted-total",
        "buffer-total-bytes",
        "bufferpool-wait-ratio",
        "bufferpool-wait-time-ns-total",
        "compression-rate-avg",
        "connection-close-rate",
        "connection-close-total",
        "connection-count",
        "connection-creation-rate",
        "connection-creation-total",
        "failed-authentication-rate",
        "failed-authentication-total",
        "failed-reauthentication-rate",
        "failed-reauthentication-total",
        "flush-time-ns-total",
        "incoming-byte-rate",
        "incoming-byte-total",
        "metadata-age",
        "metadata-wait-time-ns-total",
        "network-io-rate",
        "network-io-total",
        "outgoing-byte-rate",
        "outgoing-byte-total",
        "produce-throttle-time-avg",
        "produce-throttle-time-max",
        "reauthentication-latency-avg",
        "reauthentication-latency-max",
        "record-error-rate",
        "record-error-total",
        "record-queue-time-avg",
        "record-queue-time-max",
        "record-retry-rate",
        "record-retry-total",
        "record-send-rate",
        "record-send-total",
        "record-size-avg",
        "record-size-max",
        "records-per-request-avg",
        "request-latency-avg",
        "request-latency-max",
        "request-rate",
        "request-size-avg",
        "request-size-max",
        "request-total",
        "requests-in-flight",
        "response-rate",
        "response-total",
        "successful-authentication-rate",
        "successful-authentication-total",
        "successful-reauthentication-rate",
        "successful-reauthentication-total",
        "txn-abort-time-ns-total",
        "txn-begin-time-ns-total",
        "txn-commit-time-ns-total",
        "txn-init-time-ns-total",
        "txn-prepare-time-ns-total",
        "txn-send-offsets-time-ns-total",
        "waiting-threads",
    ]
)
"""``producer-metrics`` of Kafka 4.1's ``KafkaProducer.metrics()``, but for those of its selector and its thread."""


async def test_the_names_are_java_s_and_ours(runtime: ProducerRuntime) -> None:
    names = set(metrics_of(runtime))
    assert names >= JAVA_S
    assert names - JAVA_S == {
        "batch-total",
        "byte-total",
        "epoch-bump-total",
        "log-truncation-total",
        "loop-lag-avg",
        "loop-lag-max",
        "observer-error-total",
        "produce-request-total",
        "record-drop-total",
        "record-spool-refuse-total",
        "record-spool-replay-total",
        "record-spool-total",
        "records-accepted-total",
        "records-delivered-total",
        "spool-bytes",
        "spool-records",
    }


async def test_operations_of_the_network_are_requests_and_answers(runtime: ProducerRuntime) -> None:
    runtime.client.traffic.counts.record_request(100, runtime.now())
    runtime.client.traffic.counts.record_request(100, runtime.now())
    runtime.client.traffic.counts.record_response(50, runtime.now())
    metrics = metrics_of(runtime)
    assert (metrics["network-io-total"], metrics["request-total"], metrics["incoming-byte-total"]) == (3, 2, 50)
    assert metrics["network-io-rate"] == pytest.approx(3 / 30, rel=0.1)
    assert metrics["produce-request-total"] == 0


async def test_the_coordinator_s_client_counts_too() -> None:
    config = ProducerConfig(bootstrap_servers="127.0.0.1:1", transactional_id="x")
    runtime = ProducerRuntime(config, DefaultPartitioner(), asyncio.get_running_loop())
    assert runtime.transaction_requests is not None
    for client in (runtime.client, runtime.transaction_requests.client):
        client.traffic.counts.record_request(100, runtime.now())
        client.connection_counts.record_authentication(runtime.now())
    metrics = metrics_of(runtime)
    assert (metrics["request-total"], metrics["outgoing-byte-total"], metrics["request-size-avg"]) == (2, 200, 100)
    assert metrics["successful-authentication-total"] == 2
    await runtime.close(0.0)


async def test_a_quiet_producer_is_healthy_without_a_connection(runtime: ProducerRuntime) -> None:
    runtime.metadata.need_full_update = False
    assert health_of(ProducerState.RUNNING, runtime).is_healthy
    runtime.metadata.request_update()
    health = health_of(ProducerState.RUNNING, runtime)
    assert not health.is_healthy
    assert health.known_brokers == 2
    assert not health_of(ProducerState.CLOSING, runtime).is_healthy


async def test_old_records_and_errors_show(runtime: ProducerRuntime) -> None:
    runtime.metadata.need_full_update = False
    runtime.accumulator.appender.append("t", 0, 1, None, b"x", None, runtime.now() - 31, runtime.metadata.cluster)
    runtime.metadata.last_failure = KafkaError("no answer")
    health = health_of(ProducerState.RUNNING, runtime)
    assert not health.is_healthy
    assert health.oldest_record_age >= 31
    assert health.last_error == "no answer"
    assert 0 < health.buffered_fraction < 1
    runtime.crash = SenderCrashedError("died")
    assert health_of(ProducerState.CRASHED, runtime).last_error == "died"


async def test_a_producer_whose_spool_cannot_be_read_is_not_healthy(tmp_path: Path) -> None:
    config = ProducerConfig(bootstrap_servers="127.0.0.1:1", spool_dir=str(tmp_path))
    runtime = ProducerRuntime(config, DefaultPartitioner(), asyncio.get_running_loop())
    runtime.metadata.need_full_update = False
    assert runtime.spooling is not None
    assert health_of(ProducerState.RUNNING, runtime).is_healthy
    runtime.spooling._replay.error = "i/o error"
    health = health_of(ProducerState.RUNNING, runtime)
    assert (health.is_healthy, health.last_error) == (False, "i/o error")
    await runtime.close(0.0)


async def test_a_producer_that_was_fenced_is_not_healthy() -> None:
    config = ProducerConfig(bootstrap_servers="127.0.0.1:1", transactional_id="x")
    runtime = ProducerRuntime(config, DefaultPartitioner(), asyncio.get_running_loop())
    runtime.metadata.cluster = cluster_of({"t": [1]})
    runtime.metadata.need_full_update = False
    assert runtime.transaction is not None
    assert health_of(ProducerState.RUNNING, runtime).is_healthy
    runtime.transaction.fail(ProducerFencedError("another has its name"))
    health = health_of(ProducerState.RUNNING, runtime)
    assert not health.is_healthy
    assert health.fatal_error == health.last_error == "another has its name"
    await runtime.close(0.0)


async def test_each_broker_has_its_state(runtime: ProducerRuntime) -> None:
    states = runtime.client.nodes.states
    one, two = sorted(runtime.metadata.cluster.nodes)
    for node in (one, two):  # one of them connected already
        states.remove(node.node_id)

    def shown() -> list[tuple[str, str | None]]:
        return [(each.state, each.last_error) for each in health_of(ProducerState.RUNNING, runtime).brokers]

    assert shown() == [("idle", None), ("idle", None)]
    states.connecting(one, runtime.now())
    states.connecting(two, runtime.now())
    assert shown() == [("connecting", None), ("connecting", None)]
    states.disconnected(one.node_id, runtime.now(), error=KafkaError("no route"))
    states.authentication_failed(two.node_id, runtime.now(), SaslAuthenticationFailedError("wrong password"))
    assert shown() == [("backing off", "no route"), ("refused", "wrong password")]
    assert all(each.retry_in > 0 for each in health_of(ProducerState.RUNNING, runtime).brokers)
    states.connecting(one, runtime.now())
    assert shown()[0] == ("connecting", "no route"), "until the next can be used"
    states.ready(one.node_id)
    assert shown()[0] == ("connected", None)
    states.disconnected(one.node_id, runtime.now())
    assert shown()[0] == ("idle", None), "closed by us, unused"


async def test_bootstrap_addresses_are_not_brokers(runtime: ProducerRuntime) -> None:
    runtime.metadata.bootstrap([("h", 1)])
    assert health_of(ProducerState.RUNNING, runtime).brokers == ()
