"""The registry of handlers, the shared state and the properties of a DevBroker; its sockets are in tests/system."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import aiokafkapy.broker
from aiokafkapy.broker import DevBroker, Listener
from aiokafkapy.broker.handlers.dispatch_table import dispatch_table
from aiokafkapy.broker.handlers.registry import CLOSE_CONNECTION, NO_RESPONSE, register
from aiokafkapy.errors import ConfigurationError, IllegalStateError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression
from aiokafkapy.testing import TestCertificates

from .socketless import socketless_node


def test_the_public_names_are_there_and_no_others() -> None:
    assert [getattr(aiokafkapy.broker, name).__name__ for name in aiokafkapy.broker.__all__] == [
        "BrokerConfig",
        "Controls",
        "DevBroker",
        "FaultSchedule",
        "Listener",
    ]
    with pytest.raises(AttributeError, match="has no attribute 'Broker'"):
        _ = aiokafkapy.broker.Broker  # type: ignore[attr-defined]


def test_before_start_there_is_nothing_to_ask() -> None:
    broker = DevBroker()
    calls: list[Any] = [
        lambda: broker.bootstrap_servers,
        lambda: broker.create_topic("t"),
        lambda: broker.records("t"),
        lambda: broker.cluster_id,
    ]
    for call in calls:
        with pytest.raises(IllegalStateError, match="async with DevBroker"):
            call()
    assert broker.metrics() == {}


def test_stalling_an_unknown_node_is_an_error_and_stalls_none() -> None:
    broker = DevBroker(nodes=2)
    with pytest.raises(ValueError, match="there is no node 9"):
        broker.controls.stall_connections(True, node_id=9)
    assert broker.stalled_nodes == []


@pytest.mark.parametrize(
    ("listener", "message"),
    [
        (None, "no listener has TLS: the listeners are PLAINTEXT"),
        ("SSL", "no TLS listener is named 'SSL': the listeners are PLAINTEXT"),
    ],
)
def test_rotating_a_certificate_without_a_tls_listener_is_an_error(listener: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        DevBroker().controls.rotate_certificate("server.pem", listener)


def contents(folder: Path) -> dict[Path, bytes]:
    return {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}


async def test_controls_of_a_broker_that_does_not_run_are_errors_and_leave_its_folder_alone(tmp_path: Path) -> None:
    async with socketless_node(data_dir=tmp_path) as node:
        node.broker.create_topic("t", config={"cleanup.policy": "compact"})
        partition = node.state.topics.partition("t", 0)
        assert partition is not None
        for value in (b"1", b"2"):
            builder = RecordBatchBuilder(2**14)
            builder.try_append(1000, b"key", value, ())
            builder.seal(Compression.NONE)
            builder.stamp(-1, -1, -1)
            partition.log.append(b"".join(builder.buffers()), 0, 1000)
    before = contents(tmp_path)
    for broker in (node.broker, DevBroker(data_dir=tmp_path / "other")):
        controls = broker.controls
        calls: list[Callable[[], object]] = [
            controls.clean_logs,
            partial(controls.advance_clock, 1),
            partial(controls.set_leader, "t", 0, 1),
            partial(controls.set_leader, "t", 0, None),
            partial(controls.move_coordinator, "g", 1),
            partial(controls.start_node, 1),
            controls.hold_transactions,
            controls.expire_transactions,
            controls.refuse_authentication,
        ]
        for call in calls:
            with pytest.raises(IllegalStateError, match="not running"):
                call()
        assert (controls.drop_connections(), controls.expire_sessions()) == (0, 0)
        controls.stop_node(1)
        controls.clear()
    assert contents(tmp_path) == before


def test_a_certificate_is_rotated_on_every_listener_or_on_none(tmp_path: Path) -> None:
    certificates = TestCertificates(tmp_path)
    encrypted = certificates.server("localhost", file="encrypted.pem", password="hush")
    first: dict[str, Any] = {"ssl_keystore_location": str(certificates.server_file)}
    broker = DevBroker(
        listeners={
            "OUTSIDE": Listener("SSL", **first, ssl_key_password="hush"),
            "INSIDE": Listener("SSL", **first),
        }
    )
    before = [(each.config, each.tls) for each in broker._endpoints.values()]
    with pytest.raises(ConfigurationError, match="the key is encrypted"):
        broker.controls.rotate_certificate(encrypted)
    assert [(each.config, each.tls) for each in broker._endpoints.values()] == before
    broker.controls.rotate_certificate(encrypted, "OUTSIDE")
    outside, inside = broker._endpoints.values()
    assert outside.config.ssl_keystore_location == str(encrypted)
    assert inside.config.ssl_keystore_location == str(certificates.server_file)


def test_an_option_of_all_topics_that_no_topic_can_have_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cleanup_policy='archive': String must be one of"):
        DevBroker(cleanup_policy="archive")


def test_two_handlers_of_one_api_are_a_mistake() -> None:
    dispatch_table()
    with pytest.raises(ValueError, match="two handlers for METADATA"):
        register(ApiKey.METADATA, versions=(0, 1))(lambda context, body: context.respond())


def test_sentinels_have_a_readable_repr() -> None:
    assert [repr(NO_RESPONSE), repr(CLOSE_CONNECTION)] == ["NO_RESPONSE", "CLOSE_CONNECTION"]


async def test_a_groups_coordinator_is_always_the_same_running_node() -> None:
    async with socketless_node(nodes=3) as node:
        state = node.state
        coordinators = {key: state.coordinator_for(key) for key in ("a", "b", "c", "d")}
        assert {found.node_id for found in coordinators.values() if found} == {1, 2, 3}
        assert coordinators == {key: state.coordinator_for(key) for key in coordinators}
        state.running_nodes.clear()
        assert state.coordinator_for("a") is None
        assert state.controller_id == -1


async def test_cluster_ids_are_kafkas_22_characters(tmp_path: Any) -> None:
    async with socketless_node(data_dir=tmp_path) as node:
        assert len(node.broker.cluster_id) == 22
        assert f"cluster.id={node.broker.cluster_id}" in (tmp_path / "meta.properties").read_text()


async def test_options_of_a_topic_may_be_written_with_underscores() -> None:
    async with socketless_node() as node:
        node.broker.create_topic("t", min_insync_replicas=1, preallocate=True, config={"retention.ms": 1})
        topic = node.state.topics.get("t")
        assert topic is not None
        assert isinstance(topic.topic_id, UUID)
        assert topic.config.overrides == {"min.insync.replicas": "1", "preallocate": "true", "retention.ms": "1"}
