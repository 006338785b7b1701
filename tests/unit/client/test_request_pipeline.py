from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from aiokafkapy.client.nodes.api_versions import ApiVersions, NodeApiVersions
from aiokafkapy.client.nodes.client_request import ClientRequest, ClientResponse
from aiokafkapy.client.nodes.in_flight_requests import InFlightRequests
from aiokafkapy.client.request_pipeline import RequestPipeline
from aiokafkapy.client.transport.connection import BrokerConnection
from aiokafkapy.client.transport.connection_log import ConnectionLog
from aiokafkapy.client.transport.deadline_timer import DeadlineTimer
from aiokafkapy.common import Buffer
from aiokafkapy.errors import DisconnectedError, SerializationError, UnsupportedVersionError
from aiokafkapy.protocol.api import ApiKey, api_name, client_versions
from aiokafkapy.protocol.codec import decode_request
from aiokafkapy.protocol.framing import FrameDecoder
from aiokafkapy.protocol.messages import build_request
from tests.unit.client.fakes import FakeLoop, joined


class Connection(BrokerConnection):
    def __init__(self, now: float) -> None:
        owner: Any = None
        super().__init__(1, owner, now, max_response_size=1_000)
        self.is_writable = True
        self.writes: list[bytes] = []

    def write(self, buffers: Sequence[Buffer]) -> None:
        self.writes.append(joined(list(buffers)))


class Setting:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        loop: Any = self.loop
        self.in_flight = InFlightRequests(5)
        self.versions = ApiVersions()
        self.versions.update(1, NodeApiVersions({key: client_versions(key) for key in ApiKey}))
        self.completions = 0
        self.connection: Any = Connection(self.loop.time())
        self.pipeline = RequestPipeline(
            self.in_flight,
            self.versions,
            client_id="me",
            request_timeout=30.0,
            loop=loop,
            timer=DeadlineTimer(loop, lambda now: None),
            log=ConnectionLog(),
            on_completed=self._count,
        )

    def _count(self) -> None:
        self.completions += 1

    def write(self, **options: Any) -> asyncio.Future[ClientResponse]:
        request = ClientRequest(
            1, ApiKey.LIST_GROUPS, lambda version: build_request(ApiKey.LIST_GROUPS, version), **options
        )
        future: asyncio.Future[ClientResponse] = self.loop.create_future()
        self.pipeline.write(self.connection, request, 4, self.loop.time(), request.timeout, future)
        return future

    def answer_next(self) -> None:
        entry = self.in_flight.complete_next(1)
        assert entry is not None
        self.pipeline.complete(entry, None, self.loop.time())


@pytest.fixture
async def setting() -> Setting:
    return Setting()


async def test_a_request_is_one_write_with_header_and_body(setting: Setting) -> None:
    setting.write()
    (frame,) = FrameDecoder(1_000).feed(setting.connection.writes[0])
    header, body = decode_request(frame)
    assert (header.api_key, header.api_version, header.client_id) == (ApiKey.LIST_GROUPS, 4, "me")
    assert body.__version__ == 4
    assert setting.in_flight.count(1) == 1
    assert setting.loop.armed == [setting.loop.time() + 30]


async def test_requests_are_counted_with_all_their_bytes(setting: Setting) -> None:
    setting.write()
    setting.write(encode=lambda *_: [bytearray(8), memoryview(b"123"), b"4"])
    traffic = setting.pipeline.traffic.counts
    assert (traffic.requests, traffic.responses) == (2, 0)
    assert traffic.bytes_out == sum(map(len, setting.connection.writes))
    assert traffic.sent.maximum(setting.loop.time()) == len(setting.connection.writes[0])


async def test_correlation_ids_count_up_and_start_again_before_they_overflow(setting: Setting) -> None:
    setting.pipeline.last_correlation_id = 2**31 - 3
    for _ in range(4):
        setting.write()
    frames = [FrameDecoder(1_000).feed(data)[0] for data in setting.connection.writes]
    assert [decode_request(frame)[0].correlation_id for frame in frames] == [2**31 - 2, 2**31 - 1, 0, 1]


async def test_a_node_that_has_not_reported_its_versions(setting: Setting) -> None:
    with pytest.raises(UnsupportedVersionError, match="node 2"):
        setting.pipeline.usable_version(ClientRequest(2, ApiKey.METADATA))


async def test_an_encoder_that_fails_leaves_nothing_in_flight(setting: Setting) -> None:
    def encode(*_: Any) -> Any:
        raise ValueError("a bug")

    with pytest.raises(SerializationError, match=r"LIST_GROUPS request cannot be encoded.*a bug"):
        setting.write(encode=encode)
    assert setting.in_flight.count() == 0
    assert setting.connection.writes == []


async def test_responses_leave_in_the_order_of_completion_also_from_within_a_callback(setting: Setting) -> None:
    order: list[str] = []

    def first(_: ClientResponse) -> None:
        setting.pipeline.complete_responses()
        order.append("first")

    setting.write(callback=first)
    setting.write(callback=lambda _: order.append("second"))
    setting.answer_next()
    setting.answer_next()
    setting.pipeline.complete_responses()
    assert order == ["first", "second"]
    assert setting.completions == 1
    setting.pipeline.complete_responses()
    assert setting.completions == 1


@pytest.mark.parametrize("is_last", [True, False])
async def test_responses_are_handed_out_after_ctrl_c_in_a_callback(setting: Setting, is_last: bool) -> None:
    def interrupted(response: ClientResponse) -> None:
        raise KeyboardInterrupt

    setting.write(callback=interrupted)
    other = setting.write()
    setting.answer_next()
    if not is_last:
        setting.answer_next()
    with pytest.raises(KeyboardInterrupt):
        setting.pipeline.complete_responses()
    await setting.loop.settle()
    if is_last:
        setting.answer_next()
        setting.pipeline.complete_responses()
    assert other.done()
    assert setting.completions == (2 if is_last else 1)


async def test_an_aborted_send_completes_in_the_next_turn(setting: Setting) -> None:
    future = setting.loop.create_future()
    request = ClientRequest(1, ApiKey.METADATA)
    setting.pipeline.abort_send(request, future, DisconnectedError("closed"))
    assert not future.done()
    await setting.loop.settle()
    response = future.result()
    assert response.disconnected
    assert not response.was_sent


async def test_silence_is_probed_only_when_nothing_is_in_flight(setting: Setting) -> None:
    setting.loop.clock.advance(29)
    setting.write()
    assert setting.in_flight.count(1) == 1
    setting.loop.clock.advance(29)
    setting.write()
    assert setting.in_flight.count(1) == 2, "a request in flight has a time-out of its own"
    setting.in_flight.clear_all(1)
    setting.write()
    assert setting.in_flight.count(1) == 2
    frames = FrameDecoder(1_000).feed(setting.connection.writes[-1])
    assert [decode_request(frame)[0].api_key for frame in frames] == [ApiKey.API_VERSIONS, ApiKey.LIST_GROUPS]


def test_apis_have_names() -> None:
    assert api_name(0) == "PRODUCE"
    assert api_name(9_999) == "9999"
