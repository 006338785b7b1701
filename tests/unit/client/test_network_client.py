"""The network client against brokers without sockets, on a virtual clock: each step of Java's poll()."""

from __future__ import annotations

import asyncio
import contextlib
import math
import ssl
from typing import Any

import pytest

from aiokafkapy.client.network_client_state import NETWORK_CLIENT_STATES, NetworkClientState
from aiokafkapy.client.nodes.client_request import ClientRequest, ClientResponse
from aiokafkapy.client.nodes.connection_states import ConnectionState
from aiokafkapy.common import Node
from aiokafkapy.errors import (
    CorrelationIdMismatchError,
    DisconnectedError,
    IllegalStateError,
    KafkaTimeoutError,
    MalformedFrameError,
    SslAuthenticationFailedError,
    UnsupportedVersionError,
)
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import encode_request
from tests.unit.client.fakes import (
    FakeBroker,
    FakeCluster,
    MakeClient,
    joined,
    list_groups,
    send,
    state_of,
)


class TestStart:
    async def test_metadata_is_fetched_without_being_asked_for(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client(topics=["t"]).started()
        assert [node.node_id for node in under_test.metadata.cluster.nodes] == [1, 2, 3]
        assert under_test.metadata.cluster.partition_count("t") == 3
        assert cluster[1].count(ApiKey.METADATA) == 1

    async def test_a_dead_bootstrap_address_is_passed_over_at_once(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = make_client(bootstrap="nowhere:9,gone:9,one:1")
        started_at = under_test.now
        await under_test.started()
        assert under_test.now == started_at

    async def test_a_stalled_bootstrap_address_holds_the_start_up_for_a_second(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        cluster[2].behaviour = "hang"
        under_test = make_client(bootstrap="two:2,one:1")
        await under_test.loop.advance(1.01)
        assert not under_test.metadata.cluster.is_bootstrap

    async def test_a_broker_that_stalls_the_metadata_request_holds_it_for_seconds(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        cluster[2].answers.discard(ApiKey.METADATA)
        under_test = make_client(bootstrap="two:2")
        await under_test.loop.advance(4.9)
        before = under_test.metadata.cluster
        assert before.is_bootstrap
        cluster[2].answers.add(ApiKey.METADATA)
        await under_test.loop.advance(0.4)
        assert not under_test.metadata.cluster.is_bootstrap
        assert cluster[2].count(ApiKey.METADATA) == 2


class TestLargeMetadata:
    """An answer that takes long to decode is decoded beside the loop."""

    async def test_an_answer_counts_when_it_is_decoded(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client(topics=["t"]).started()
        cluster.topics = {"t": dict.fromkeys(range(5_000), 2)}
        under_test.metadata.request_update()
        await under_test.loop.advance(1)
        assert under_test.loop.elsewhere == 1
        assert under_test.metadata.cluster.partition_count("t") == 5_000
        assert not under_test.metadata.is_update_requested
        assert under_test.client.nodes.in_flight_count() == 0

    async def test_an_answer_that_cannot_be_read_costs_the_connection_and_is_asked_for_again(
        self,
        make_client: MakeClient,
        cluster: FakeCluster,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        under_test = await make_client(topics=["t"]).started()
        cluster.topics = {"t": dict.fromkeys(range(5_000), 2)}
        failures = [MalformedFrameError("garbage"), MemoryError("too much")]
        read = under_test.metadata.read_answer

        def read_answer(version: int, frame: bytes) -> Any:
            if failures:
                raise failures.pop(0)
            return read(version, frame)

        monkeypatch.setattr(under_test.metadata, "read_answer", read_answer)
        under_test.metadata.request_update()
        await under_test.loop.advance(5)
        assert failures == []
        assert sum("protocol.violation" in record.getMessage() for record in caplog.records) == 2
        assert under_test.metadata.cluster.partition_count("t") == 5_000

    async def test_a_client_that_was_closed_meanwhile_ignores_the_answer(
        self, make_client: MakeClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        under_test = await make_client(topics=["t"]).started()
        slow = asyncio.get_running_loop().create_future()
        cluster.topics = {"t": dict.fromkeys(range(5_000), 2)}
        under_test.metadata.request_update()
        monkeypatch.setattr(under_test.loop, "run_in_executor", lambda *_: slow)
        await under_test.loop.advance(1)
        under_test.client.abort()
        assert slow.cancelled(), "the loop may be closed before the thread ends"
        await under_test.loop.settle()
        assert under_test.metadata.cluster.partition_count("t") < 5_000


class TestReadiness:
    async def test_ready_connects_and_becomes_true(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().started()
        assert not under_test.client.ready(under_test.node(2), under_test.now)
        assert state_of(under_test, 2) is ConnectionState.CONNECTING
        before = under_test.wakeups
        await under_test.loop.settle()
        assert under_test.client.ready(under_test.node(2), under_test.now)
        assert under_test.wakeups > before

    @pytest.mark.parametrize("node", [Node(-9, "", -1), Node(2, "", 1), Node(2, "two", -1)])
    async def test_a_node_without_an_address_is_never_ready_nor_tried(
        self, make_client: MakeClient, cluster: FakeCluster, node: Node
    ) -> None:
        under_test = await make_client().started()
        attempts = len(cluster.attempts)
        assert not under_test.client.ready(node, under_test.now)
        assert under_test.client.connection_delay(node, under_test.now) == math.inf
        await under_test.loop.settle()
        assert len(cluster.attempts) == attempts

    async def test_metadata_goes_before_anything_else(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().connected(1)
        for broker in cluster.brokers.values():
            broker.answers.discard(ApiKey.METADATA)
        await under_test.loop.advance(1)
        under_test.metadata.request_update()
        assert not under_test.client.is_ready(under_test.node(1), under_test.now)
        # Asking sends it, ahead of the caller's request.
        assert under_test.client.ready(under_test.node(1), under_test.now)
        assert sum(broker.pending[-1:] != [] for broker in cluster.brokers.values()) == 1

    async def test_five_in_flight_and_no_more(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().connected(1)
        for _ in range(5):
            assert under_test.client.ready(under_test.node(1), under_test.now)
            send(under_test)
        assert under_test.client.nodes.in_flight_count(1) == 5
        assert not under_test.client.nodes.can_send_request(1, under_test.now)
        with pytest.raises(IllegalStateError, match="not ready"):
            send(under_test)
        cluster[1].pending[0].respond()
        assert under_test.client.nodes.can_send_request(1, under_test.now)

    async def test_one_request_at_a_time_is_being_written(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().connected(1)
        transport = cluster[1].transports[-1]
        transport.is_stalled = True
        send(under_test)
        assert not under_test.client.nodes.can_send_request(1, under_test.now)
        before = under_test.wakeups
        transport.resume()
        assert under_test.client.nodes.can_send_request(1, under_test.now)
        assert under_test.wakeups > before

    async def test_a_throttled_node_is_muted_until_then_and_the_sender_woken(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1)
        future = send(under_test)
        cluster[1].pending[0].respond(throttle_time=750)
        assert (await future).body is not None
        assert under_test.client.nodes.throttle_delay(1, under_test.now) == pytest.approx(0.75)
        assert not under_test.client.ready(under_test.node(1), under_test.now)
        await under_test.loop.advance(0.7)
        before = under_test.wakeups
        assert not under_test.client.nodes.can_send_request(1, under_test.now)
        await under_test.loop.advance(0.06)
        assert under_test.wakeups > before
        assert under_test.client.ready(under_test.node(1), under_test.now)

    async def test_each_waiter_is_woken_for_each_of_several_throttled_nodes(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        """With the first alone, a metadata request that only the other could take would wait for ever."""
        under_test = await make_client().connected(1, 2)
        for node_id, milliseconds in ((1, 500), (2, 900)):
            send(under_test, node_id)
            cluster[node_id].pending[0].respond(throttle_time=milliseconds)
        await under_test.loop.settle()
        for _ in range(2):
            before = under_test.wakeups
            await under_test.loop.advance(0.5)
            assert under_test.wakeups > before


class TestResponses:
    async def test_answers_resolve_futures_in_order_with_body_version_and_latency(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1)
        done: list[asyncio.Future[ClientResponse]] = []
        futures = [send(under_test) for _ in range(3)]
        for future in futures:
            future.add_done_callback(done.append)
        await under_test.loop.advance(0.5)
        cluster[1].transports[-1].receive(b"".join(request.frame() for request in cluster[1].pending))
        await under_test.loop.settle()
        assert done == futures
        response = futures[0].result()
        assert response.error is None
        assert not response.disconnected
        assert response.latency == pytest.approx(0.5)
        assert response.version == cluster[1].pending[0].header.api_version

    async def test_answers_are_counted_with_the_bytes_of_their_size(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1)
        traffic = under_test.client.traffic.counts
        requests, responses, bytes_in = traffic.requests, traffic.responses, traffic.bytes_in
        assert requests == responses > 0, "the client's own count"
        send(under_test)
        frame = cluster[1].pending[0].frame()
        cluster[1].transports[-1].receive(frame)
        assert (traffic.requests, traffic.responses) == (requests + 1, responses + 1)
        assert traffic.bytes_in == bytes_in + len(frame)

    @pytest.mark.parametrize("piece", [1, 3, 7])
    async def test_fragments_of_any_size_are_put_together(
        self, make_client: MakeClient, cluster: FakeCluster, piece: int
    ) -> None:
        under_test = await make_client().connected(1)
        futures = [send(under_test) for _ in range(2)]
        data = b"".join(request.frame() for request in cluster[1].pending)
        for start in range(0, len(data), piece):
            cluster[1].transports[-1].receive(data[start : start + piece])
        assert [future.result().error for future in futures] == [None, None]

    async def test_callbacks_run_at_once_in_order_and_a_bad_one_stops_nobody(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1)
        seen: list[int] = []

        def bad(_: ClientResponse) -> None:
            seen.append(0)
            raise ValueError("a bug")

        futures = [send(under_test, callback=bad), send(under_test, callback=lambda _: seen.append(1))]
        cluster[1].transports[-1].receive(b"".join(request.frame() for request in cluster[1].pending))
        assert seen == [0, 1]
        assert all(future.result().error is None for future in futures)

    async def test_a_callback_may_send_and_close_connections(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1)
        later: list[asyncio.Future[ClientResponse]] = []
        order: list[str] = []

        def again(_: ClientResponse) -> None:
            later.append(send(under_test, callback=lambda _: order.append("third")))
            under_test.client.disconnect(1, under_test.now, "a test")
            order.append("first")

        send(under_test, callback=again)
        second = send(under_test, callback=lambda _: order.append("second"))
        cluster[1].transports[-1].receive(cluster[1].pending[0].frame())
        assert order == ["first", "second", "third"]
        assert second.result().disconnected
        assert later[0].result().disconnected

    async def test_a_cancelled_future_is_left_alone(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().connected(1)
        cancelled, other = send(under_test), send(under_test)
        cancelled.cancel()
        for request in list(cluster[1].pending):
            request.respond()
        assert (await other).error is None

    async def test_own_encoder_and_decoder_are_used(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().connected(1)

        def encode(version: int, correlation_id: int, client_id: str) -> list[bytes]:
            data = encode_request(list_groups(version), correlation_id, client_id)
            return [data[:10], memoryview(data)[10:20], bytearray(data[20:])]  # type: ignore[list-item]

        request = ClientRequest(1, ApiKey.LIST_GROUPS, encode=encode, decode=lambda version, frame: (version, frame))
        future = under_test.client.send(request, under_test.now)
        cluster[1].pending[0].respond()
        version, frame = (await future).body
        assert version == cluster[1].pending[0].header.api_version
        assert frame == cluster[1].pending[0].frame()[4:]
        assert cluster[1].pending[0].header.client_id == "aiokafkapy"
        assert joined(encode(version, 0, "x"))[:4] == len(joined(encode(version, 0, "x"))[4:]).to_bytes(4, "big")

    async def test_a_request_without_response_is_complete_when_written(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1)
        transport = cluster[1].transports[-1]
        future = send(under_test, expects_response=False)
        assert not future.done()  # never before send has returned
        assert (await future).body is None
        transport.is_stalled = True
        future = send(under_test, expects_response=False)
        await under_test.loop.settle()
        assert not future.done()
        transport.resume()
        assert future.result().error is None
        assert under_test.client.nodes.in_flight_count(1) == 0


class TestHostileBytes:
    @pytest.mark.parametrize(
        ("data", "cause"),
        [
            (b"\xff\xff\xff\xff", MalformedFrameError),
            (b"\x7f\xff\xff\xff", MalformedFrameError),
            (b"\0\0\0\2ab", MalformedFrameError),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", MalformedFrameError),
            (b"\0\0\0\4\0\0\x27\x0f", CorrelationIdMismatchError),
        ],
    )
    async def test_garbage_drops_the_connection_and_only_it(
        self, make_client: MakeClient, cluster: FakeCluster, data: bytes, cause: type[Exception]
    ) -> None:
        under_test = await make_client().connected(1, 2)
        futures = [send(under_test) for _ in range(3)]
        other = send(under_test, 2)
        cluster[1].transports[-1].receive(data)
        for future in futures:
            assert future.result().disconnected
            error = future.result().error
            assert isinstance(error, DisconnectedError)
            assert isinstance(error.__cause__, cause)
        assert state_of(under_test, 1) is ConnectionState.DISCONNECTED
        cluster[2].pending[0].respond()
        assert (await other).error is None

    async def test_a_response_that_nobody_asked_for(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().connected(2)
        cluster[2].transport.receive(b"\0\0\0\4\0\0\0\7")
        assert state_of(under_test, 2) is ConnectionState.DISCONNECTED

    async def test_a_response_of_garbage_completes_its_own_request_too(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1)
        first, second = send(under_test), send(under_test)
        correlation_id = cluster[1].pending[0].header.correlation_id
        cluster[1].transports[-1].receive(b"\0\0\0\x08" + correlation_id.to_bytes(4, "big") + b"\0\xff\xff\xff")
        assert first.result().disconnected
        assert second.result().disconnected

    async def test_answers_before_the_garbage_count(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().connected(1)
        first, second = send(under_test), send(under_test)
        cluster[1].transports[-1].receive(cluster[1].pending[0].frame() + b"\xff\xff\xff\xff")
        await under_test.loop.settle()
        # The decoder gives frames up to the fault only when they came before it; nothing is left pending either way.
        assert first.done()
        assert second.result().disconnected

    async def test_a_decoder_that_fails_leaves_no_future_pending(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1)

        def decode(version: int, frame: bytes) -> Any:
            raise MalformedFrameError("no good")

        future = under_test.client.send(
            ClientRequest(1, ApiKey.LIST_GROUPS, list_groups, decode=decode), under_test.now
        )
        cluster[1].pending[0].respond()
        assert future.result().disconnected

    async def test_a_decoder_with_a_bug_leaves_no_future_pending_either(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        """The transport closes on an exception of its protocol; earlier and later requests complete with it."""
        under_test = await make_client().connected(1)

        def decode(version: int, frame: bytes) -> Any:
            raise ZeroDivisionError

        good = send(under_test)
        bad = under_test.client.send(ClientRequest(1, ApiKey.LIST_GROUPS, list_groups, decode=decode), under_test.now)
        frames = b"".join(request.frame() for request in cluster[1].pending)
        with pytest.raises(ZeroDivisionError) as raised:
            cluster[1].transports[-1].receive(frames)
        cluster[1].transports[-1].lose(raised.value)
        assert good.result().error is None
        assert bad.result().disconnected


class TestDisconnections:
    async def test_five_in_flight_complete_in_order(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().connected(1)
        order: list[int] = []
        futures = [send(under_test, callback=lambda _, n=n: order.append(n)) for n in range(5)]
        cluster[1].transports[-1].lose(ConnectionResetError(104, "Connection reset by peer"))
        assert order == [0, 1, 2, 3, 4]
        for future in futures:
            response = future.result()
            assert response.disconnected
            assert not response.timed_out
            assert "reset by peer" in str(response.error)
        assert under_test.client.nodes.in_flight_count() == 0

    async def test_a_certificate_that_is_refused_after_the_handshake_is_no_lost_connection(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        """In TLS 1.3 a client is done before the broker has looked at its certificate."""
        cluster[1].answers.clear()
        under_test = make_client()
        await under_test.loop.settle()
        alert = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED]")
        alert.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
        cluster[1].transport.lose(alert)
        await under_test.loop.settle()
        error = under_test.metadata.fatal_error
        assert isinstance(error, SslAuthenticationFailedError)
        assert str(error).startswith("TLS handshake with one:1 failed: the other side wants a certificate of ours")

    async def test_metadata_is_asked_for_again(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().connected(1, 2)
        before = sum(broker.count(ApiKey.METADATA) for broker in cluster.brokers.values())
        cluster[1].transports[-1].lose()
        assert under_test.metadata.is_update_requested
        await under_test.loop.advance(0.2)
        assert sum(broker.count(ApiKey.METADATA) for broker in cluster.brokers.values()) == before + 1

    async def test_back_off_grows_from_50_ms_to_a_second_with_jitter(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1)
        cluster[2].behaviour = "refuse"
        delays = []
        for _ in range(9):
            assert not under_test.client.ready(under_test.node(2), under_test.now)
            await under_test.loop.settle()
            assert under_test.client.nodes.connection_failed(under_test.node(2))
            delay = under_test.client.connection_delay(under_test.node(2), under_test.now)
            delays.append(delay)
            before = under_test.wakeups
            await under_test.loop.advance(delay + 1e-6)
            assert under_test.wakeups > before, "a waiter for the node is told when it may be tried again"
        for number, delay in enumerate(delays):
            expected = min(0.05 * 2**number, 1.0)
            assert expected * 0.79 <= delay <= min(expected * 1.21, 1.0)
        assert len({round(delay / min(0.05 * 2**n, 1.0), 6) for n, delay in enumerate(delays)}) > 1

    async def test_a_ready_connection_starts_the_back_off_again(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(2)
        for _ in range(3):
            cluster[2].transport.lose()
            delay = under_test.client.connection_delay(under_test.node(2), under_test.now)
            assert 0.04 <= delay <= 0.06
            await under_test.loop.advance(delay + 1e-6)
            await under_test.connected(2)

    async def test_a_stalled_node_does_not_hinder_another(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().connected(1, 2)
        cluster[1].takes_nothing = True
        stalled = send(under_test, 1)
        for _ in range(20):
            assert under_test.client.ready(under_test.node(2), under_test.now)
            future = send(under_test, 2)
            cluster[2].pending.pop().respond()
            assert future.result().error is None
        assert not stalled.done()


class TestTimeouts:
    async def test_a_request_times_out_from_its_write_and_takes_the_connection_with_it(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client(request_timeout_ms=3_000).connected(1)
        first = send(under_test)
        await under_test.loop.advance(1)
        second = send(under_test)
        await under_test.loop.advance(1.9)
        assert not first.done()
        await under_test.loop.advance(0.11)
        assert first.result().timed_out
        assert first.result().disconnected
        assert isinstance(first.result().error, KafkaTimeoutError)
        assert "one:1" in str(first.result().error)
        assert second.result().disconnected
        assert not second.result().timed_out
        assert under_test.client.nodes.connection_failed(under_test.node(1))

    async def test_a_request_may_have_a_time_out_of_its_own(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1)
        long = send(under_test)
        short = send(under_test, timeout=0.5)
        await under_test.loop.advance(0.51)
        assert short.result().timed_out
        assert long.result().disconnected
        assert not long.result().timed_out

    async def test_a_connection_that_is_not_set_up_in_time_is_given_up(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client(socket_connection_setup_timeout_ms=2_000).started()
        cluster[2].behaviour = "hang"
        under_test.client.ready(under_test.node(2), under_test.now)
        await under_test.loop.advance(1.59)
        assert state_of(under_test, 2) is ConnectionState.CONNECTING
        await under_test.loop.advance(0.82)  # 2 s ± 20 %
        assert state_of(under_test, 2) is ConnectionState.DISCONNECTED

    async def test_set_up_time_outs_grow(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client(
            socket_connection_setup_timeout_ms=1_000, socket_connection_setup_timeout_max_ms=3_000
        ).started()
        cluster[2].behaviour = "hang"
        took = []
        for _ in range(3):
            await under_test.loop.advance(2)
            under_test.client.ready(under_test.node(2), under_test.now)
            began = under_test.now
            while state_of(under_test, 2) is ConnectionState.CONNECTING:
                await under_test.loop.advance(0.05)
            took.append(under_test.now - began)
        assert 0.75 <= took[0] <= 1.3
        assert 1.55 <= took[1] <= 2.5
        assert 2.35 <= took[2] <= 3.1


class TestVersions:
    """Requests have a version that both sides know."""

    async def test_no_version_in_common_completes_before_any_write(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        cluster[1].versions[ApiKey.LIST_GROUPS] = (100, 101)
        under_test = await make_client().connected(1)
        future = send(under_test)
        assert not future.done()
        response = await future
        assert isinstance(response.error, UnsupportedVersionError)
        assert not response.was_sent
        assert not response.disconnected
        assert cluster[1].count(ApiKey.LIST_GROUPS) == 0
        assert state_of(under_test, 1) is ConnectionState.READY

    async def test_a_requests_own_limits_count(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().connected(1)
        send(under_test, max_version=2)
        assert cluster[1].pending[0].header.api_version == 2
        refused = send(under_test, min_version=99)
        assert isinstance((await refused).error, UnsupportedVersionError)


class TestIdle:
    async def test_an_idle_client_wakes_for_nothing_but_metadata_age_and_idle_close(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1, 2, 3)
        future = send(under_test)
        cluster[1].pending[0].respond()
        await future
        await under_test.loop.advance(31)  # the request's void deadline
        before, wakeups = under_test.loop.fired, under_test.wakeups
        await under_test.loop.advance(148)
        assert under_test.loop.fired == before
        assert under_test.wakeups == wakeups
        await under_test.loop.advance(3)
        assert under_test.client.nodes.connected_nodes == frozenset()
        assert under_test.loop.fired - before <= 4

    async def test_idle_close_asks_for_no_metadata(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client(connections_max_idle_ms=1_000).connected(1)
        requests = sum(len(broker.requests) for broker in cluster.brokers.values())
        await under_test.loop.advance(5)
        assert under_test.client.nodes.connected_nodes == frozenset()
        assert sum(len(broker.requests) for broker in cluster.brokers.values()) == requests

    async def test_a_connection_with_something_in_flight_is_not_idle(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client(connections_max_idle_ms=1_000).connected(1)
        future = send(under_test)
        await under_test.loop.advance(5)
        cluster[1].pending[0].respond()
        assert (await future).error is None

    async def test_metadata_is_refreshed_at_its_age(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client(metadata_max_age_ms=10_000, connections_max_idle_ms=-1).started()
        before = sum(broker.count(ApiKey.METADATA) for broker in cluster.brokers.values())
        await under_test.loop.advance(100.5)
        assert sum(broker.count(ApiKey.METADATA) for broker in cluster.brokers.values()) == before + 10

    async def test_a_silent_connection_is_probed_in_the_same_write(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(2)
        await under_test.loop.advance(60)
        writes = len(cluster[2].transport.writes)
        future = send(under_test, 2)
        assert len(cluster[2].transport.writes) == writes + 1
        assert [request.api_key for request in cluster[2].requests[-2:]] == [ApiKey.API_VERSIONS, ApiKey.LIST_GROUPS]
        await under_test.loop.settle()
        cluster[2].pending[0].respond()
        assert (await future).error is None
        send(under_test, 2)
        assert cluster[2].requests[-2].api_key == ApiKey.LIST_GROUPS, "probed once"

    async def test_a_connection_that_died_in_silence_costs_seconds_not_a_request_time_out(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(2)
        await under_test.loop.advance(60)
        cluster[2].answers.clear()
        future = send(under_test, 2)
        await under_test.loop.advance(5.01)
        assert future.result().disconnected


class TestMovedNodes:
    async def test_a_node_at_a_new_address_is_connected_to_there(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(2)
        moved = cluster.brokers.pop(("two", 2))
        cluster.brokers[("newtwo", 22)] = FakeBroker(cluster, 2, "newtwo", 22)
        await under_test.loop.advance(1)
        under_test.metadata.request_update()
        await under_test.loop.settle()
        assert moved.transports == []
        await under_test.connected(2)
        assert len(cluster[2].transports) == 1


class TestClose:
    async def test_close_resolves_everything_and_leaves_nothing(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1, 2)
        cluster[3].behaviour = "hang"
        under_test.client.ready(under_test.node(3), under_test.now)
        await under_test.loop.settle()
        futures = [send(under_test) for _ in range(5)]
        tasks = asyncio.all_tasks()
        await asyncio.gather(under_test.client.close(), under_test.client.close())
        assert all(future.result().disconnected for future in futures)
        assert asyncio.all_tasks() <= tasks
        assert not [task for task in asyncio.all_tasks() if "aiokafkapy" in task.get_name()]
        assert under_test.loop.armed == []
        assert all(broker.transports == [] for broker in cluster.brokers.values())
        await under_test.client.close()

    async def test_abort_is_synchronous(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().connected(1)
        future = send(under_test)
        under_test.client.abort()
        assert future.result().disconnected
        under_test.client.abort()

    async def test_a_closed_client_refuses_politely(self, make_client: MakeClient) -> None:
        under_test = await make_client().connected(1)
        node = under_test.node(1)
        await under_test.client.close()
        assert not under_test.client.ready(node, under_test.now)
        response = await send(under_test)
        assert response.disconnected
        assert not response.was_sent
        with pytest.raises(DisconnectedError):
            await under_test.client.send_and_wait(ApiKey.LIST_GROUPS, list_groups)

    async def test_closing_while_connecting_gives_the_attempt_up(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        cluster[1].behaviour = "hang"
        under_test = make_client()
        await under_test.loop.settle()
        await under_test.client.close()
        assert cluster.attempts == [("one", 1)]

    def test_the_states_have_an_end(self) -> None:
        assert NETWORK_CLIENT_STATES.is_final(NetworkClientState.CLOSED)


class TestSendAndWait:
    async def test_a_request_connects_and_returns_the_body(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().started()
        task = asyncio.ensure_future(
            under_test.client.send_and_wait(ApiKey.LIST_GROUPS, list_groups, node=under_test.node(3))
        )
        await under_test.loop.settle()
        cluster[3].pending[0].respond(groups=[{"group_id": "g", "protocol_type": "consumer"}])
        assert [group.group_id for group in (await task).groups] == ["g"]

    async def test_a_lost_connection_is_raised(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().started()
        task = asyncio.ensure_future(under_test.client.send_and_wait(ApiKey.LIST_GROUPS, list_groups))
        await under_test.loop.settle()
        (busy,) = [broker for broker in cluster.brokers.values() if broker.pending]
        busy.transports[-1].lose()
        with pytest.raises(DisconnectedError):
            await task

    async def test_the_error_of_a_request_out_of_time_says_why(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        cluster[1].behaviour = "refuse"
        under_test = make_client()
        with pytest.raises(KafkaTimeoutError, match=r"LIST_GROUPS.*one:1.*Connection refused"):
            await under_test.client.send_and_wait(ApiKey.LIST_GROUPS, list_groups, timeout=0.01)

    async def test_the_connection_stays_when_a_request_is_out_of_time(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1)
        other = send(under_test)
        with pytest.raises(KafkaTimeoutError):
            await under_test.client.send_and_wait(ApiKey.LIST_GROUPS, list_groups, under_test.node(1), timeout=0.01)
        for request in list(cluster[1].pending):
            request.respond()
        assert (await other).error is None
        assert state_of(under_test, 1) is ConnectionState.READY

    async def test_cancelling_leaves_nothing_behind(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        cluster[1].behaviour = "hang"
        under_test = make_client()
        task = asyncio.ensure_future(under_test.client.send_and_wait(ApiKey.LIST_GROUPS, list_groups))
        await under_test.loop.settle()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert under_test.client.nodes.in_flight.count() == 0
