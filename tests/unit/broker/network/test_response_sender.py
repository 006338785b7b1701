"""Responses that are parked, delayed or throttled on their way back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_response, encode_request
from aiokafkapy.protocol.messages import build_request

from ..socketless import socketless_node


async def test_a_parked_request_is_answered_when_its_future_resolves() -> None:
    async with socketless_node() as node:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        contexts: list[Any] = []

        def park(context: Any, body: Any) -> Any:
            contexts.append(context)
            return future

        node.controls.on_request(ApiKey.METADATA, park)
        request = node.handle(encode_request(build_request(ApiKey.METADATA, 13), 7, "me")[4:])
        assert (request.parked, node.responses) == (future, [])
        future.set_result(contexts[0].respond(cluster_id="later"))
        await asyncio.sleep(0)
        assert decode_response(ApiKey.METADATA, 13, node.responses[0].buffer[4:])[1].cluster_id == "later"
        assert request.parked is None
        assert node.pool.is_stopped


async def test_a_request_given_up_at_the_end_leaves_no_timer_however_late_its_answers_are() -> None:
    async with socketless_node() as node:
        node.controls.delay(ApiKey.METADATA, 60)
        node.controls.on_request(ApiKey.METADATA, lambda *_: asyncio.get_running_loop().create_future())
        request = node.handle(encode_request(build_request(ApiKey.METADATA, 12), 7, "me")[4:])
        node.pool.stop()
        await asyncio.sleep(0)
        assert request.parked is None
        assert not node.pool.responses.delayed


async def test_a_request_whose_connection_is_gone_is_not_kept_parked() -> None:
    async with socketless_node() as node:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        node.controls.on_request(ApiKey.METADATA, lambda context, body: future)
        node.is_closed = True
        node.handle(encode_request(build_request(ApiKey.METADATA, 13), 7, "me")[4:])
        assert future.cancelled()


async def test_an_authentication_is_not_throttled() -> None:
    async with socketless_node() as node:
        node.controls.throttle(None, 500)
        node.call(ApiKey.METADATA, 13)
        node.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        node.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"")
        assert [response.throttle for response in node.responses] == [0.5, 0, 0]


async def test_bytes_over_the_produce_quota_are_throttled() -> None:
    async with socketless_node(producer_byte_rate=1, quota_window_num=2) as node:
        frame = encode_request(build_request(ApiKey.PRODUCE, 9, acks=1), 7, "me")[4:]
        node.handle(frame)
        throttle = node.responses[0].throttle
        assert throttle == pytest.approx(len(frame) - 1, rel=0.01)
        body = decode_response(ApiKey.PRODUCE, 9, node.responses[0].buffer[4:])[1]
        assert body.throttle_time.total_seconds() == pytest.approx(throttle, abs=0.001)
        node.call(ApiKey.METADATA, 13)
        assert node.responses[-1].throttle == 0


async def test_a_throttle_time_that_a_response_has_no_room_for_is_the_longest_that_it_has() -> None:
    async with socketless_node(producer_byte_rate=1e-9, quota_window_num=2) as node:
        node.handle(encode_request(build_request(ApiKey.PRODUCE, 9, acks=1), 7, "me")[4:])
        body = decode_response(ApiKey.PRODUCE, 9, node.responses[0].buffer[4:])[1]
        assert body.throttle_time.total_seconds() == node.responses[0].throttle == 2_147_483


@pytest.mark.parametrize(("api", "version"), [(ApiKey.FETCH, 12), (ApiKey.SHARE_FETCH, 1)])
async def test_bytes_over_the_fetch_quota_are_throttled(api: ApiKey, version: int) -> None:
    async with socketless_node(consumer_byte_rate=1, quota_window_num=2) as node:
        node.handle(encode_request(build_request(api, version, max_wait=0), 7, "me")[4:])
        (response,) = node.responses
        assert response.throttle == pytest.approx(len(response.buffer) - 1, rel=0.2)
        assert response.throttle > 0


async def test_a_quota_of_an_entity_counts_before_the_brokers_own() -> None:
    async with socketless_node(quota_window_num=2) as node:
        frame = encode_request(build_request(ApiKey.PRODUCE, 9, acks=1), 7, "me")[4:]

        def throttle() -> float:
            node.handle(frame)
            return node.responses[-1].throttle

        def alter(value: float | None) -> None:
            part = {"entity_type": "client-id", "entity_name": "me"}
            ops = [{"key": "producer_byte_rate", "value": value or 0, "remove": value is None}]
            node.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": [part], "ops": ops}])

        assert throttle() == 0
        alter(1.0)
        assert throttle() == len(frame) - 1
        alter(None)
        assert throttle() == 0


async def test_a_share_of_the_event_loop_is_a_quota_in_per_cent() -> None:
    async with socketless_node(quota_window_num=2) as node:
        node.state.quotas.alter(frozenset([("user", None)]), {"request_percentage": 1e-9})
        node.handle(encode_request(build_request(ApiKey.METADATA, 9, topics=[]), 7, "me")[4:])
        assert node.responses[-1].throttle == 1.0  # one window at most
