"""The events of a network client's observers, with brokers without sockets and on a virtual clock."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.client.config import ClientConfig
from aiokafkapy.client.nodes.client_request import ClientRequest
from aiokafkapy.client.tap.watch import ClientWatch
from aiokafkapy.errors import DisconnectedError, KafkaConnectionError
from aiokafkapy.observability.observer import (
    OBSERVER_METHODS,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestDone,
    RequestSent,
    Throttled,
)
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.messages import build_request
from tests.unit.client.fakes import ClientUnderTest, FakeCluster, MakeClient


class Recorder:
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        for name in OBSERVER_METHODS:
            setattr(self, name, self.events.append)

    def take(self, kind: type[Any], api: str | None = None) -> list[Any]:
        """The events of a kind, and of an API, that were not taken yet."""
        found = [event for event in self.events if type(event) is kind and api in (None, getattr(event, "api", None))]
        self.events[:] = [event for event in self.events if event not in found]
        return found


def post(under_test: ClientUnderTest, node_id: int = 1, **options: Any) -> None:
    request = ClientRequest(
        node_id, ApiKey.LIST_GROUPS, lambda version: build_request(ApiKey.LIST_GROUPS, version), **options
    )
    under_test.client.post(request, under_test.now)


def test_without_observers_there_is_no_watch() -> None:
    assert ClientWatch.of(ClientConfig(bootstrap_servers="h"), float) is None
    assert ClientWatch.of(ClientConfig(bootstrap_servers="h", observers=[Recorder()]), float) is not None


async def test_a_client_without_observers_keeps_none(make_client: MakeClient) -> None:
    under_test = await make_client().started()
    assert under_test.client.watch is None


async def test_a_connection_is_opened_once_and_closed_once(make_client: MakeClient, cluster: FakeCluster) -> None:
    recorder = Recorder()
    under_test = await make_client(observers=[recorder]).connected(1)
    assert recorder.take(ConnectionOpened) == [
        ConnectionOpened(-1, "one:1", 0.0),
        ConnectionOpened(1, "one:1", 0.0),
    ]
    await under_test.loop.advance(7)
    post(under_test)
    cluster[1].transports[-1].lose(ConnectionResetError("reset"))
    closed, *others = recorder.take(ConnectionClosed)
    assert others == []
    assert (closed.node_id, closed.address, closed.seconds, closed.unanswered) == (1, "one:1", pytest.approx(7), 1)
    assert isinstance(closed.error, DisconnectedError)
    assert "reset" in str(closed.error)
    assert recorder.take(ConnectionFailed) == []


async def test_an_idle_connection_ends_without_an_error(make_client: MakeClient) -> None:
    recorder = Recorder()
    under_test = await make_client(observers=[recorder], connections_max_idle_ms=5_000).connected(1)
    await under_test.loop.advance(20)
    assert {(event.node_id, event.error, event.unanswered) for event in recorder.take(ConnectionClosed)} == {
        (-1, None, 0),
        (1, None, 0),
    }


async def test_an_attempt_that_fails_is_reported_with_the_error(make_client: MakeClient, cluster: FakeCluster) -> None:
    recorder = Recorder()
    cluster[2].behaviour = "refuse"
    under_test = await make_client(observers=[recorder]).started()
    under_test.client.ready(under_test.node(2), under_test.now)
    await under_test.loop.settle()
    (failed,) = recorder.take(ConnectionFailed)
    assert (failed.node_id, failed.address, failed.seconds) == (2, "two:2", 0.0)
    assert isinstance(failed.error, KafkaConnectionError)
    assert "refused" in str(failed.error)


async def test_an_attempt_that_takes_too_long_tells_how_long(make_client: MakeClient, cluster: FakeCluster) -> None:
    recorder = Recorder()
    cluster[2].behaviour = "hang"
    options = {"socket_connection_setup_timeout_ms": 3_000}
    under_test = await make_client(observers=[recorder], **options).started()
    under_test.client.ready(under_test.node(2), under_test.now)
    await under_test.loop.advance(5)
    seconds = [event.seconds for event in recorder.take(ConnectionFailed)]
    assert len(seconds) == 1
    assert 2.3 <= seconds[0] <= 3.7  # with the jitter of the time-out


async def test_a_request_and_its_answer_have_sizes_and_times(make_client: MakeClient, cluster: FakeCluster) -> None:
    recorder = Recorder()
    under_test = await make_client(observers=[recorder]).connected(1)
    assert [event.api for event in recorder.take(RequestSent, "METADATA")] == ["METADATA"]
    recorder.events.clear()
    post(under_test)
    post(under_test)
    first, second = recorder.take(RequestSent)
    assert first == RequestSent(1, "LIST_GROUPS", 16, 5, first.correlation_id, first.size, 1)
    assert (second.in_flight, second.correlation_id) == (2, first.correlation_id + 1)
    assert first.size == second.size == len(cluster[1].transports[-1].writes[-1])
    for seconds in (0.5, 0.25):
        await under_test.loop.advance(seconds)
        cluster[1].pending.pop(0).respond(groups=[])
    answered, after = recorder.take(RequestDone)
    assert answered.correlation_id == first.correlation_id
    assert (answered.queued, answered.seconds, answered.error) == (0.0, pytest.approx(0.5), None)
    assert answered.request_size == first.size
    assert answered.response_size > 4
    # The second one waited until the first was answered: brokers answer one after the other.
    assert (after.queued, after.seconds) == (pytest.approx(0.5), pytest.approx(0.75))


async def test_requests_of_a_lost_connection_are_done_with_the_error(
    make_client: MakeClient, cluster: FakeCluster
) -> None:
    recorder = Recorder()
    under_test = await make_client(observers=[recorder]).connected(1)
    recorder.events.clear()
    post(under_test)
    post(under_test)
    sent = recorder.take(RequestSent)
    await under_test.loop.advance(1)
    cluster[1].transports[-1].lose()
    done = recorder.take(RequestDone)
    assert [event.correlation_id for event in done] == [event.correlation_id for event in sent]
    assert all(isinstance(event.error, DisconnectedError) and event.response_size == 0 for event in done)
    assert [event.seconds for event in done] == [pytest.approx(1)] * 2


async def test_a_request_without_an_answer_is_done_when_it_is_written(make_client: MakeClient) -> None:
    recorder = Recorder()
    under_test = await make_client(observers=[recorder]).connected(1)
    recorder.events.clear()
    post(under_test, expects_response=False)
    (done,) = recorder.take(RequestDone)
    assert (done.response_size, done.seconds, done.error) == (0, 0.0, None)


async def test_every_request_that_was_sent_is_done_once(make_client: MakeClient, cluster: FakeCluster) -> None:
    recorder = Recorder()
    under_test = await make_client(observers=[recorder], topics=["t"]).connected(1, 2, 3)
    for node_id in (1, 2, 3):
        post(under_test, node_id)
    cluster[1].pending.pop().respond(groups=[])
    cluster[2].transport.lose()
    await under_test.loop.advance(40)  # the third times out; the idle ones are probed
    await under_test.client.close()
    sent = [event.correlation_id for event in recorder.take(RequestSent)]
    done = [event.correlation_id for event in recorder.take(RequestDone)]
    assert len(set(sent)) == len(sent) > 6
    assert sorted(done) == sorted(sent)


async def test_throttling_is_reported(make_client: MakeClient, cluster: FakeCluster) -> None:
    recorder = Recorder()
    under_test = await make_client(observers=[recorder]).connected(1)
    post(under_test)
    cluster[1].pending.pop().respond(groups=[], throttle_time=1_500)
    assert recorder.take(Throttled) == [Throttled(1, "LIST_GROUPS", 1.5)]


async def test_an_observer_that_raises_harms_no_request(make_client: MakeClient, cluster: FakeCluster) -> None:
    def fail(event: object) -> None:
        raise RuntimeError("no")

    class Failing:
        connection_opened = connection_closed = request_sent = request_done = throttled = staticmethod(fail)

    under_test = await make_client(observers=[Failing()]).connected(1, 2)
    request = ClientRequest(1, ApiKey.LIST_GROUPS, lambda version: build_request(ApiKey.LIST_GROUPS, version))
    future = under_test.client.send(request, under_test.now)
    cluster[1].pending.pop().respond(groups=[])
    assert (await future).error is None
