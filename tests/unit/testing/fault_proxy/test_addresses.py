"""The addresses in answers are the proxy's own, in all versions; each broker has a port."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey, response_class, schema_versions
from aiokafkapy.protocol.codec import decode_response, encode_response
from aiokafkapy.protocol.messages import build_response
from aiokafkapy.testing import FaultProxy
from aiokafkapy.testing.fault_proxy.addresses import rewrite_addresses

from .harness import METADATA_VERSION, Connect, Server, framed, metadata_of


def _with_address(api_key: int, version: int) -> Any:
    """An answer that names node 5 at broker:9092, and, in versions with an error for each, another that is nowhere."""
    place = {"node_id": 5, "broker_id": 5, "host": "broker", "port": 9092}
    if api_key == ApiKey.FIND_COORDINATOR:
        nowhere = {"key": "lost", "node_id": -1, "host": "", "port": -1, "error_code": 15}
        fields: dict[str, Any] = {"coordinators": [place | {"key": "g"}, nowhere]} if version >= 4 else place
        fields.pop("broker_id", None)
        for each in fields.get("coordinators", ()):
            each.pop("broker_id", None)
        return build_response(api_key, version, **fields)
    place.pop("node_id" if api_key == ApiKey.DESCRIBE_CLUSTER else "broker_id")
    name = "brokers" if api_key in (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER) else "node_endpoints"
    return build_response(api_key, version, **{name: [place]})


WITH_ADDRESSES = [
    (api_key, version)
    for api_key, lowest in [
        (ApiKey.METADATA, 0),
        (ApiKey.FIND_COORDINATOR, 0),
        (ApiKey.DESCRIBE_CLUSTER, 0),
        (ApiKey.PRODUCE, 10),
        (ApiKey.FETCH, 16),
        (78, 1),
        (79, 1),
    ]
    for version in range(max(lowest, schema_versions(api_key)[0]), schema_versions(api_key)[1] + 1)
]


@pytest.mark.parametrize(("api_key", "version"), WITH_ADDRESSES)
def test_the_addresses_in_an_answer_of_any_version_are_ours(api_key: int, version: int) -> None:
    asked: list[tuple[int, str, int]] = []

    def rename(node_id: int, host: str, port: int) -> tuple[str, int]:
        asked.append((node_id, host, port))
        return "127.0.0.1", 4711

    before = encode_response(_with_address(api_key, version), 33)
    after = rewrite_addresses(api_key, version, before[4:], rename)
    assert asked == [(5, "broker", 9092)]
    assert struct.unpack(">ii", after[:8]) == (len(after) - 4, 33)
    said = repr(decode_response(api_key, version, after[4:])[1])
    assert said == repr(decode_response(api_key, version, before[4:])[1]).replace("'broker'", "'127.0.0.1'").replace(
        "9092", "4711"
    )


def test_every_message_with_an_address_for_clients_is_among_these() -> None:
    known = {api_key for api_key, _ in WITH_ADDRESSES}
    for api_key in ApiKey:
        for version in range(schema_versions(api_key)[0], schema_versions(api_key)[1] + 1):
            fields = response_class(api_key, version).__dataclass_fields__
            if {"brokers", "node_endpoints", "coordinators", "host"} & set(fields):
                assert (api_key, version) in WITH_ADDRESSES
    assert known == {0, 1, 3, 10, 60, 78, 79}


@pytest.mark.parametrize("version", [0, 12, 13, 99, -1])
def test_an_answer_that_cannot_be_decoded_stays_as_it_is(version: int) -> None:
    for frame in (b"", b"ab", b"\0\0\0\1" + b"\xff" * 40):
        assert rewrite_addresses(ApiKey.METADATA, version, frame, lambda *_: ("x", 1)) == framed(frame)


def test_clients_are_offered_no_version_whose_addresses_could_not_be_read() -> None:
    _, newest = schema_versions(ApiKey.METADATA)
    offered = [
        {"api_key": ApiKey.METADATA, "min_version": 0, "max_version": newest + 3},
        {"api_key": ApiKey.HEARTBEAT, "min_version": 0, "max_version": 99},
        {"api_key": ApiKey.FETCH, "min_version": 4, "max_version": 5},
    ]
    frame = encode_response(build_response(ApiKey.API_VERSIONS, 4, api_keys=offered), 1)[4:]
    _, body = decode_response(ApiKey.API_VERSIONS, 4, rewrite_addresses(ApiKey.API_VERSIONS, 4, frame, None)[4:])  # type: ignore[arg-type]
    assert [each.max_version for each in body.api_keys] == [newest, 99, 5]


async def test_every_broker_has_a_port_of_its_own_and_clients_learn_no_other(
    broker: DevBroker, proxy: FaultProxy, connect: Connect
) -> None:
    assert len(proxy.ports) == 1
    assert proxy.node_ids == []
    client = await connect(proxy)
    body = await metadata_of(client)
    assert {(each.node_id, (each.host, each.port)) for each in body.brokers} == {
        (node_id, proxy.address_of(node_id)) for node_id in (1, 2, 3)
    }
    assert len(proxy.ports) == 3
    assert not proxy.ports & {node.port for node in broker.nodes}
    assert proxy.node_ids == [1, 2, 3]
    for node_id in (1, 2, 3):
        assert (await metadata_of(await connect(proxy, node_id))).brokers == body.brokers
        assert proxy.requests[-1].node_id == node_id
        assert broker.controls.request_count(ApiKey.METADATA, node_id) == 1 + (node_id == 1)
    coordinator = await client.ask(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=["a", "b", "c"])
    assert {each.port for each in coordinator.coordinators} <= proxy.ports
    cluster = await client.ask(ApiKey.DESCRIBE_CLUSTER, 0)
    assert {each.port for each in cluster.brokers} == proxy.ports
    with pytest.raises(KeyError, match="node 9"):
        proxy.address_of(9)


async def test_a_broker_that_advertises_the_proxy_itself_is_left_alone(
    server: Server, plain: FaultProxy, connect: Connect
) -> None:
    ((port,),) = [plain.ports]
    server.answer = lambda frame: encode_response(
        build_response(ApiKey.METADATA, METADATA_VERSION, brokers=[{"node_id": 1, "host": "127.0.0.1", "port": port}]),
        int.from_bytes(frame[4:8], "big"),
    )
    body = await metadata_of(await connect(plain))
    assert [(each.host, each.port) for each in body.brokers] == [("127.0.0.1", port)]
    assert plain.ports == {port}
