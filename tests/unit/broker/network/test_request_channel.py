"""The bounded queue between Processors and handlers."""

from __future__ import annotations

import asyncio

import pytest

from aiokafkapy.broker.context import ConnectionInfo
from aiokafkapy.broker.network.request_channel import Request, RequestChannel, RequestMetrics, Response, ResponseAction


class FakeConnection:
    info = ConnectionInfo("a:1", "L", "a")
    is_closed = False

    def send(self, response: Response) -> None:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError


class FakeProcessor:
    """Keeps the requests that were refused, and sends them when called back."""

    def __init__(self, channel: RequestChannel) -> None:
        self.channel = channel
        self.held: list[Request] = []
        self.calls = 0

    def offer(self, request: Request) -> None:
        if not self.channel.send_request(request):
            self.held.append(request)

    def enqueue_response(self, response: Response) -> None:
        raise AssertionError

    def resume_requests(self) -> None:
        self.calls += 1
        held, self.held = self.held, []
        for request in held:
            self.offer(request)


def request_of(processor: FakeProcessor, number: int) -> Request:
    return Request(processor, FakeConnection(), bytes([number]), received=0.0)


async def test_requests_come_out_in_order() -> None:
    channel = RequestChannel(10)
    processor = FakeProcessor(channel)
    for number in range(5):
        processor.offer(request_of(processor, number))
    assert [(await channel.receive_request()).buffer[0] for _ in range(5)] == [0, 1, 2, 3, 4]


async def test_a_full_queue_refuses_and_calls_back_when_there_is_room() -> None:
    channel = RequestChannel(2)
    processor = FakeProcessor(channel)
    for number in range(4):
        processor.offer(request_of(processor, number))
    assert len(channel) == 2
    assert len(processor.held) == 2
    seen = [(await channel.receive_request()).buffer[0] for _ in range(4)]
    assert seen == [0, 1, 2, 3]
    assert not processor.held


async def test_refused_processors_are_called_back_in_turn() -> None:
    channel = RequestChannel(1)
    first, second = FakeProcessor(channel), FakeProcessor(channel)
    first.offer(request_of(first, 0))
    first.offer(request_of(first, 1))
    second.offer(request_of(second, 2))
    assert [(await channel.receive_request()).buffer[0] for _ in range(3)] == [0, 1, 2]
    assert (first.calls, second.calls) == (1, 1)


async def test_a_waiting_handler_is_woken_by_a_request() -> None:
    channel = RequestChannel(2)
    processor = FakeProcessor(channel)
    waiting = [asyncio.create_task(channel.receive_request()) for _ in range(3)]
    await asyncio.sleep(0)
    processor.offer(request_of(processor, 7))
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result().buffer[0] for task in done] == [7]
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)


async def test_a_cancelled_handler_takes_no_request_with_it() -> None:
    channel = RequestChannel(2)
    processor = FakeProcessor(channel)
    first, second = (asyncio.create_task(channel.receive_request()) for _ in range(2))
    await asyncio.sleep(0)
    processor.offer(request_of(processor, 9))  # wakes the first
    first.cancel()
    assert (await second).buffer[0] == 9
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_dropped_requests_are_gone() -> None:
    channel = RequestChannel(1)
    processor = FakeProcessor(channel)
    for number in range(2):
        processor.offer(request_of(processor, number))
    channel.drop_requests()
    assert len(channel) == 0
    processor.offer(request_of(processor, 5))
    assert (await channel.receive_request()).buffer[0] == 5
    assert processor.calls == 0


def test_the_six_times_are_summed_per_api() -> None:
    metrics = RequestMetrics()
    processor = FakeProcessor(RequestChannel(1))
    for _ in range(2):
        request = request_of(processor, 0)
        request.api_key, request.received, request.dequeued, request.handled, request.answered = 3, 1.0, 2.0, 4.0, 8.0
        response = Response(request, ResponseAction.SEND, throttle=0.5, enqueued=8.0, dequeued=16.0)
        metrics.record(response, sent=32.0)
    times = metrics.by_api[3]
    assert (times.count, times.queue, times.local, times.remote) == (2, 2.0, 4.0, 8.0)
    assert (times.throttle, times.response_queue, times.send) == (1.0, 16.0, 32.0)
