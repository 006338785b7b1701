"""A request between the queue and its handler, with any bytes."""

from __future__ import annotations

import asyncio
import struct
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafkapy.broker.handlers.dispatch_table import dispatch_table
from aiokafkapy.broker.network import request_handler
from aiokafkapy.broker.network.request_channel import ResponseAction
from aiokafkapy.errors import NotControllerError, UnsupportedVersionError
from aiokafkapy.protocol.api import ApiKey, is_flexible, schema_versions
from aiokafkapy.protocol.codec import decode_response, encode_request, encode_request_header
from aiokafkapy.protocol.messages import build_request
from aiokafkapy.protocol.writer import error_codes

from ..socketless import SocketlessNode, socketless_node

EVERY_VERSION = [
    (handler.api_key, version)
    for handler in dispatch_table().values()
    for version in range(handler.min_version, handler.max_version + 1)
]


async def check_survived(frame: bytes) -> None:
    """One response or one parked request, and no unexpected exception of a handler."""
    async with socketless_node() as node:
        with patch.object(request_handler, "logger") as logger:
            request = node.handle(frame)
        await asyncio.sleep(0)
        assert len(node.responses) == (0 if request.parked else 1)
        logger.error.assert_not_called()


def last_action(node: SocketlessNode) -> ResponseAction:
    return node.responses[-1].action


@pytest.mark.parametrize("api_key", sorted({api_key for api_key, _ in EVERY_VERSION}))
async def test_every_version_of_every_api_answers_an_empty_request(api_key: int) -> None:
    for version in (version for key, version in EVERY_VERSION if key == api_key):
        async with socketless_node(group_min_session_timeout_ms=0) as node:
            node.handle(encode_request(build_request(api_key, version), 7, "me")[4:])
            await asyncio.sleep(0)
            if not node.responses:  # parked: a member waits for its group
                assert node.pool.responses.parked
            elif last_action(node) is ResponseAction.SEND:
                decode_response(api_key, version, node.responses[-1].buffer[4:])
            else:
                assert api_key == ApiKey.PRODUCE  # acks=0: nobody waits for an answer


async def test_every_version_of_every_api_has_an_error_response() -> None:
    async with socketless_node() as node:
        for api_key, version in EVERY_VERSION:
            node.responses.clear()
            node.controls.fail_next(api_key, NotControllerError)
            node.handle(encode_request(build_request(api_key, version), 7, "me")[4:])
            if last_action(node) is ResponseAction.SEND:
                decode_response(api_key, version, node.responses[-1].buffer[4:])
            else:
                assert api_key == ApiKey.PRODUCE


@settings(max_examples=300)
@given(
    st.sampled_from(EVERY_VERSION),
    st.binary(max_size=200),
)
async def test_any_body_is_answered_or_closes_its_connection_and_nothing_else(
    api_version: tuple[int, int], body: bytes
) -> None:
    await check_survived(encode_request_header(*api_version, 7, b"me") + body)


@settings(max_examples=300)
@given(st.sampled_from(EVERY_VERSION), st.data())
async def test_a_damaged_request_is_answered_or_closes_its_connection_and_nothing_else(
    api_version: tuple[int, int], data: st.DataObject
) -> None:
    api_key, version = api_version
    frame = bytearray(encode_request(build_request(api_key, version), 7, "me")[4:])
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.integers(0, 255))
    await check_survived(bytes(frame))


@given(st.binary(max_size=40))
async def test_any_bytes_at_all_are_survived(frame: bytes) -> None:
    await check_survived(frame)


def test_only_versions_with_a_schema_are_served() -> None:
    for handler in dispatch_table().values():
        low, high = schema_versions(handler.api_key)
        assert low <= handler.min_version <= handler.max_version <= high


@pytest.mark.parametrize(("api_key", "version"), [(999, 0), (ApiKey.METADATA, 99), (ApiKey.PRODUCE, 2)])
async def test_an_unknown_api_or_version_closes_the_connection(api_key: int, version: int) -> None:
    async with socketless_node() as node:
        node.handle(struct.pack(">hhih", api_key, version, 7, -1))
        assert last_action(node) is ResponseAction.CLOSE
        assert node.controls.request_count(api_key) == 1


@pytest.mark.parametrize("version", [5, 77, 32767])
async def test_api_versions_of_the_future_is_answered_with_the_versions_served(version: int) -> None:
    async with socketless_node() as node:
        request = node.handle(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 7, -1) + b"\0rubbish")
        correlation_id, body = decode_response(ApiKey.API_VERSIONS, 0, node.responses[0].buffer[4:])
        assert (correlation_id, body.error_code) == (7, UnsupportedVersionError.code)
        assert list(error_codes(request.answer, 1)) == [UnsupportedVersionError.code]  # for the console's log


@pytest.mark.parametrize("size", [32_767, 32_768, 40_000])
async def test_a_string_longer_than_kafka_reads_closes_the_connection(size: int) -> None:
    async with socketless_node() as node:
        fields = {"topics": [{"name": "x" * size}]}
        node.handle(encode_request(build_request(ApiKey.METADATA, 12, **fields), 7, "me")[4:])
        assert last_action(node) is (ResponseAction.SEND if size == 32_767 else ResponseAction.CLOSE)


async def test_api_versions_tells_exactly_the_versions_served() -> None:
    async with socketless_node() as node:
        body = node.call(ApiKey.API_VERSIONS, 3, client_software_name="a-client.1", client_software_version="1.0-b")
        told = {key.api_key: (key.min_version, key.max_version) for key in body.api_keys}
        served = {handler.api_key: (handler.min_version, handler.max_version) for handler in dispatch_table().values()}
        assert told.pop(ApiKey.PRODUCE)[0] == 0  # as Kafka, for librdkafka's sake
        assert served.pop(ApiKey.PRODUCE)[0] == 3
        for of_a_receiver in (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY):  # there is none
            del served[of_a_receiver]
        assert told == served
        refused = node.call(ApiKey.API_VERSIONS, 3, client_software_name="not a name", client_software_version="1")
        assert refused.error_code == 42


async def test_a_cancelled_future_closes_and_a_failed_one_is_the_apis_error() -> None:
    async with socketless_node() as node:
        futures: list[asyncio.Future[Any]] = []

        def park(context: Any, body: Any) -> Any:
            futures.append(asyncio.get_running_loop().create_future())
            return futures[-1]

        node.controls.on_request(ApiKey.METADATA, park)
        for _ in range(2):
            node.handle(encode_request(build_request(ApiKey.METADATA, 13), 7, "me")[4:])
        futures[0].cancel()
        futures[1].set_exception(NotControllerError())
        await asyncio.sleep(0)
        assert node.responses[0].action is ResponseAction.CLOSE
        assert decode_response(ApiKey.METADATA, 13, node.responses[1].buffer[4:])[1].error_code == 41


async def test_a_response_that_cannot_be_written_closes_the_connection() -> None:
    async with socketless_node() as node:
        node.controls.on_request(ApiKey.METADATA, lambda context, body: "no response at all")  # type: ignore[arg-type,return-value]
        node.handle(encode_request(build_request(ApiKey.METADATA, 13), 7, "me")[4:])
        assert last_action(node) is ResponseAction.CLOSE


def test_flexible_versions_are_known_for_every_api_served() -> None:
    assert all(isinstance(is_flexible(api_key, version), bool) for api_key, version in EVERY_VERSION)
