"""SASL on the client's connections: a network client against brokers without sockets, on a virtual clock."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import pytest

from aiokafkapy.client.authentication import AUTHENTICATION_STATES, AuthenticationState, renewal_delay
from aiokafkapy.client.nodes.connection_states import ConnectionState
from aiokafkapy.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from aiokafkapy.protocol.api import ApiKey
from tests.unit.client.fakes import (
    ClientUnderTest,
    FakeBroker,
    FakeCluster,
    FakeRequest,
    FakeTransport,
    MakeClient,
    send,
    state_of,
)

QUICK_SET_UP: dict[str, Any] = {
    "socket_connection_setup_timeout_ms": 1_000,
    "socket_connection_setup_timeout_max_ms": 1_000,
    "request_timeout_ms": 20_000,
}


class Exchange:
    """Says ``one``, and to ``two`` ``three``; then it is complete."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.is_complete = False

    def respond(self, challenge: bytes) -> bytes | None:
        if challenge == b"":
            return b"one"
        if challenge == b"two":
            self.is_complete = True
            return b"three"
        raise SaslAuthenticationFailedError(f"what is {challenge!r}?")


class Mechanism:
    """A user's own mechanism."""

    name = "SAY-THREE"
    blocks = False

    def __init__(self) -> None:
        self.prepared = 0
        self.hosts: list[str] = []
        self.error: Exception | None = None
        self.is_ready = asyncio.Event()
        self.is_ready.set()

    async def prepare(self) -> None:
        self.prepared += 1
        await self.is_ready.wait()
        if self.error is not None:
            raise self.error

    def exchange(self, host: str) -> Exchange:
        self.hosts.append(host)
        return Exchange(host)

    def close(self) -> None:
        """Nothing is held."""


class TokenMechanism(Mechanism):
    """A mechanism like OAUTHBEARER: closed, it has no token any more, and refuses callers that wait for one."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False

    async def prepare(self) -> None:
        await super().prepare()
        self.check()

    def exchange(self, host: str) -> Exchange:
        self.check()
        return super().exchange(host)

    def check(self) -> None:
        if self.is_closed:
            raise SaslAuthenticationFailedError("the client is closed: no token is asked for")

    def close(self) -> None:
        self.is_closed = True
        self.is_ready.set()


class SaslServer:
    """A broker's half of the exchange; ``said`` are the received messages, and ``refuses`` is the error of a
    refusal.
    """

    def __init__(self, broker: FakeBroker, lifetime_ms: int = 0) -> None:
        self.said: list[bytes] = []
        self.lifetime_ms = lifetime_ms
        self.mechanisms = ["SAY-THREE"]
        self.refuses: str | None = None
        broker.answering[ApiKey.SASL_HANDSHAKE] = self.handshake
        broker.answering[ApiKey.SASL_AUTHENTICATE] = self.authenticate

    def handshake(self, request: FakeRequest) -> None:
        error_code = 0 if request.body.mechanism in self.mechanisms else UnsupportedSaslMechanismError.code
        request.respond(error_code=error_code, mechanisms=self.mechanisms)

    def authenticate(self, request: FakeRequest) -> None:
        self.said.append(request.body.auth_bytes)
        if self.refuses is not None:
            request.respond(error_code=SaslAuthenticationFailedError.code, error_message=self.refuses)
        elif request.body.auth_bytes == b"one":
            request.respond(auth_bytes=b"two")
        else:
            request.respond(session_lifetime=self.lifetime_ms)


def make_sasl_client(make_client: MakeClient, mechanism: Mechanism, **options: Any) -> ClientUnderTest:
    return make_client(security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, **options)


class TestFirst:
    @pytest.mark.parametrize("turns", range(6))
    @pytest.mark.parametrize("blocks", [False, True])
    async def test_a_refusal_that_comes_with_the_end_of_the_connection_is_read(
        self, blocks: bool, turns: int, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        """Kafka's brokers wait a while after a wrong password, then send both at once."""
        server, mechanism = SaslServer(cluster[1]), Mechanism()
        mechanism.blocks = blocks
        server.refuses = "invalid credentials"
        under_test = make_sasl_client(make_client, mechanism)
        answer, loop = server.authenticate, asyncio.get_running_loop()

        def close_after(turns: int, transport: FakeTransport) -> None:
            if turns:
                loop.call_soon(close_after, turns - 1, transport)
            else:
                transport.lose()

        def answer_and_close(request: FakeRequest) -> None:
            answer(request)
            close_after(turns, request.transport)

        cluster[1].answering[ApiKey.SASL_AUTHENTICATE] = answer_and_close
        await under_test.loop.settle()
        error = under_test.metadata.fatal_error
        assert isinstance(error, SaslAuthenticationFailedError)
        assert str(error) == "one:1 refused the credentials (SAY-THREE): invalid credentials"
        assert not [task for task in asyncio.all_tasks() if "authenticate" in task.get_name()]

    @pytest.mark.parametrize("last", [b"one", b"three"])
    async def test_a_connection_that_ends_after_an_answer_is_made_again(
        self, last: bytes, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        server, mechanism = SaslServer(cluster[1]), Mechanism()
        answer = server.authenticate

        def answer_and_close(request: FakeRequest) -> None:
            answer(request)
            if request.body.auth_bytes == last and server.said.count(last) == 1:
                request.transport.lose()

        cluster[1].answering[ApiKey.SASL_AUTHENTICATE] = answer_and_close
        under_test = make_sasl_client(make_client, mechanism)
        await under_test.loop.advance(1)
        await under_test.started()
        assert server.said in ([b"one", b"one", b"three"], [b"one", b"three", b"one", b"three"])

    async def test_each_connection_is_authenticated_before_its_first_request(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        servers = [SaslServer(cluster[node_id]) for node_id in (1, 2, 3)]
        mechanism = Mechanism()
        await make_sasl_client(make_client, mechanism).connected(2)
        assert [server.said for server in servers] == [[b"one", b"three"]] * 2 + [[]]
        assert mechanism.hosts == ["one", "two"]
        keys = [request.api_key for request in cluster[1].requests]
        authenticate = ApiKey.SASL_AUTHENTICATE
        assert keys == [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, authenticate, authenticate, ApiKey.METADATA]
        assert cluster[1].requests[1].header.api_version == 1

    async def test_long_work_is_done_beside_the_loop(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        SaslServer(cluster[1])
        mechanism = Mechanism()
        mechanism.blocks = True
        under_test = await make_sasl_client(make_client, mechanism).started()
        assert under_test.loop.elsewhere == 2

    async def test_no_request_goes_while_the_credentials_are_awaited(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        mechanism = Mechanism()
        mechanism.is_ready.clear()
        under_test = make_sasl_client(make_client, mechanism)
        await under_test.loop.settle()
        assert [request.api_key for request in cluster[1].requests] == [ApiKey.API_VERSIONS]
        mechanism.is_ready.set()
        await under_test.started()

    async def test_the_task_ends_with_the_connection(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        SaslServer(cluster[1])
        mechanism = Mechanism()
        mechanism.is_ready.clear()
        under_test = make_sasl_client(make_client, mechanism)
        await under_test.loop.settle()
        cluster[1].transport.lose()
        await under_test.loop.advance(0.2)
        assert mechanism.prepared == 2, "the next connection has its own"
        assert len([task for task in asyncio.all_tasks() if "authenticate" in task.get_name()]) == 1


class TestRefused:
    async def test_refused_credentials_are_fatal_at_once_and_told_in_the_brokers_words(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1]).refuses = "no such user"
        under_test = make_sasl_client(make_client, Mechanism())
        await under_test.loop.settle()
        error = under_test.metadata.fatal_error
        assert isinstance(error, SaslAuthenticationFailedError)
        assert str(error) == "one:1 refused the credentials (SAY-THREE): no such user"
        assert ConnectionState.AUTHENTICATION_FAILED in {state_of(under_test, -1), state_of(under_test, 1)}

    async def test_they_are_tried_again_with_back_off_until_they_are_good(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        server = SaslServer(cluster[1])
        server.refuses = "not yet"
        under_test = make_sasl_client(make_client, Mechanism())
        await under_test.loop.advance(10)
        assert 5 <= len(cluster.attempts) <= 20
        server.refuses = None
        await under_test.loop.advance(2)
        await under_test.started()
        assert under_test.metadata.fatal_error is None

    async def test_an_unsupported_mechanism_error_names_the_brokers_mechanisms(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1]).mechanisms = ["SCRAM-SHA-512", "PLAIN"]
        under_test = make_sasl_client(make_client, Mechanism())
        await under_test.loop.settle()
        error = under_test.metadata.fatal_error
        assert isinstance(error, UnsupportedSaslMechanismError)
        assert str(error) == "one:1 does not have sasl_mechanism='SAY-THREE'; it has: PLAIN, SCRAM-SHA-512"

    async def test_a_broker_without_sasl_is_refused(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        del cluster[1].versions[ApiKey.SASL_HANDSHAKE]
        under_test = make_sasl_client(make_client, Mechanism())
        await under_test.loop.settle()
        assert isinstance(under_test.metadata.fatal_error, AuthenticationFailedError)
        assert "takes no SASL" in str(under_test.metadata.fatal_error)

    async def test_a_broker_that_proves_nothing_is_refused_by_us(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        cluster[1].answering[ApiKey.SASL_AUTHENTICATE] = lambda request: request.respond(auth_bytes=b"fool")
        under_test = make_sasl_client(make_client, Mechanism())
        await under_test.loop.settle()
        assert str(under_test.metadata.fatal_error) == "what is b'fool'?"

    async def test_an_error_of_the_users_own_mechanism_is_an_authentication_error(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        mechanism = Mechanism()
        mechanism.error = LookupError("no vault")
        under_test = make_sasl_client(make_client, mechanism)
        await under_test.loop.settle()
        error = under_test.metadata.fatal_error
        assert isinstance(error, SaslAuthenticationFailedError)
        assert str(error) == "SAY-THREE: LookupError was raised by the mechanism or the token provider"
        assert error.__cause__ is mechanism.error

    async def test_new_credentials_are_tried_at_once(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        server = SaslServer(cluster[1])
        server.refuses = "no"
        under_test = make_sasl_client(make_client, Mechanism(), reconnect_backoff_ms=60_000)
        await under_test.loop.advance(30)
        assert len(cluster.attempts) == 1
        server.refuses = None
        mechanism = Mechanism()
        under_test.client.update_credentials(mechanism)
        await under_test.loop.advance(0.2)
        await under_test.started()
        assert mechanism.prepared == 1

    async def test_new_credentials_take_the_place_of_those_that_are_waited_for(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        slow, good = TokenMechanism(), TokenMechanism()
        slow.is_ready.clear()
        under_test = make_sasl_client(make_client, slow)
        await under_test.loop.settle()
        under_test.client.update_credentials(good)
        await under_test.started()
        assert (slow.prepared, good.prepared) == (1, 1)
        assert under_test.metadata.fatal_error is None
        assert len(cluster.attempts) == 1, "no connection was lost"

    @pytest.mark.parametrize("held", [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE])
    async def test_a_refusal_of_credentials_that_were_replaced_does_not_count(
        self, held: ApiKey, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        server = SaslServer(cluster[1])
        requests: list[FakeRequest] = []
        cluster[1].answering[held] = requests.append
        under_test = make_sasl_client(make_client, TokenMechanism())
        await under_test.loop.settle()
        under_test.client.update_credentials(TokenMechanism())
        SaslServer(cluster[1])
        server.refuses = "too old"
        (server.handshake if held is ApiKey.SASL_HANDSHAKE else server.authenticate)(requests.pop())
        await under_test.loop.settle()
        assert under_test.metadata.fatal_error is None
        await under_test.loop.advance(1)
        await under_test.started()

    async def test_requests_in_flight_stay_when_credentials_are_replaced_in_a_renewal(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        SaslServer(cluster[2], lifetime_ms=10_000)
        slow = TokenMechanism()
        under_test = await make_sasl_client(make_client, slow).connected(2)
        answer = send(under_test, 2)
        slow.is_ready.clear()
        await under_test.loop.advance(9.6)
        under_test.client.update_credentials(TokenMechanism())
        await under_test.loop.settle()
        cluster[2].pending.pop().respond()
        await under_test.loop.settle()
        assert answer.result().error is None
        assert under_test.client.ready(under_test.node(2), under_test.now)
        assert len(cluster[2].transports) == 1

    async def test_a_mechanism_that_fails_to_close_spoils_neither_the_next_nor_the_end(
        self, make_client: MakeClient, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        SaslServer(cluster[1])
        first, second = Mechanism(), Mechanism()
        first.close = Mock(side_effect=KeyError("no vault"))  # type: ignore[method-assign]
        second.close = Mock(side_effect=asyncio.CancelledError)  # type: ignore[method-assign]
        under_test = make_sasl_client(make_client, first)
        await under_test.started()
        under_test.client.update_credentials(second)
        await under_test.client.close()
        assert [record.message for record in caplog.records if "not_closed" in record.message] == [
            "sasl.mechanism_not_closed mechanism=SAY-THREE error=KeyError",
            "sasl.mechanism_not_closed mechanism=SAY-THREE error=CancelledError",
        ]

    @pytest.mark.parametrize("is_ready", [True, False])
    async def test_the_same_mechanism_with_other_credentials_is_not_closed(
        self, is_ready: bool, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        server, mechanism = SaslServer(cluster[1]), TokenMechanism()
        if not is_ready:
            mechanism.is_ready.clear()
        under_test = make_sasl_client(make_client, mechanism)
        await under_test.loop.settle()
        under_test.client.update_credentials(mechanism)
        assert not mechanism.is_closed
        mechanism.is_ready.set()
        await under_test.started()
        assert server.said
        await under_test.client.close()
        assert mechanism.is_closed

    async def test_a_token_that_no_broker_takes_is_refused_with_its_size(
        self, make_client: MakeClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server = SaslServer(cluster[1])
        monkeypatch.setattr(Exchange, "respond", lambda self, challenge: bytes(600_000))
        under_test = make_sasl_client(make_client, Mechanism())
        await under_test.loop.settle()
        assert "the token has 600,000 bytes; brokers take 524,288" in str(under_test.metadata.fatal_error)
        assert not server.said

    async def test_a_lost_connection_is_not_a_refusal(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        SaslServer(cluster[1])
        cluster[1].answering[ApiKey.SASL_AUTHENTICATE] = lambda request: request.transport.lose()
        under_test = make_sasl_client(make_client, Mechanism())
        await under_test.loop.settle()
        assert under_test.metadata.fatal_error is None
        SaslServer(cluster[1])
        await under_test.loop.advance(1)
        await under_test.started()


class Unheeding(Mechanism):
    """A mechanism whose ``prepare`` goes on when it is cancelled, until ``is_ready``."""

    async def prepare(self) -> None:
        self.prepared += 1
        while not self.is_ready.is_set():
            with suppress(asyncio.CancelledError):
                await self.is_ready.wait()


class TestUsersCode:
    """Each attempt ends, with any behaviour of a user's mechanism, and another is made."""

    LIMIT = 20_000

    async def given_up(self, under_test: ClientUnderTest, cluster: FakeCluster) -> str:
        """The reason for which a first attempt was given up, after its time and not before."""
        await under_test.loop.advance(self.LIMIT / 1000 - 0.1)
        assert len(cluster.attempts) == 1
        await under_test.loop.advance(0.2)
        assert under_test.metadata.fatal_error is None
        assert len(cluster.attempts) == 2
        return under_test.metadata.describe_failure()

    @pytest.mark.parametrize("kind", [Mechanism, Unheeding])
    async def test_one_that_gives_no_credentials_is_given_up(
        self, kind: type[Mechanism], make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        mechanism = kind()
        mechanism.is_ready.clear()
        under_test = make_sasl_client(make_client, mechanism, request_timeout_ms=self.LIMIT)
        why = await self.given_up(under_test, cluster)
        assert "SAY-THREE: there were no credentials within request_timeout_ms=20000" in why
        mechanism.is_ready.set()
        await under_test.started()

    async def test_one_that_hangs_in_its_thread_is_given_up(
        self, make_client: MakeClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        SaslServer(cluster[1])
        mechanism = Mechanism()
        mechanism.blocks = True
        under_test = make_sasl_client(make_client, mechanism, request_timeout_ms=self.LIMIT)
        with monkeypatch.context() as hanging:
            hanging.setattr(under_test.loop, "run_in_executor", lambda *job: under_test.loop.create_future())
            why = await self.given_up(under_test, cluster)
        assert "SAY-THREE: the exchange was not complete within request_timeout_ms=20000" in why
        await under_test.loop.advance(self.LIMIT / 1000 + 1)
        await under_test.started()

    async def test_one_that_never_comes_to_an_end_is_given_up(
        self, make_client: MakeClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Exchange, "respond", lambda self, challenge: b"one")
        SaslServer(cluster[1])
        requests: list[FakeRequest] = []
        cluster[1].answering[ApiKey.SASL_AUTHENTICATE] = requests.append
        under_test = make_sasl_client(make_client, Mechanism(), request_timeout_ms=self.LIMIT)
        for _ in range(5):
            await under_test.loop.advance(4)
            assert len(cluster.attempts) == 1
            requests.pop().respond(auth_bytes=b"two")
        await under_test.loop.advance(1)
        assert len(cluster.attempts) == 2
        assert "the exchange was not complete within request_timeout_ms=20000" in under_test.metadata.describe_failure()

    @pytest.mark.parametrize("blocks", [True, False])
    async def test_a_stop_iteration_is_an_error_as_any_other(
        self, blocks: bool, make_client: MakeClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        SaslServer(cluster[1])
        mechanism = Mechanism()
        mechanism.blocks = blocks
        monkeypatch.setattr(Exchange, "respond", lambda self, challenge: next(iter(())))
        under_test = make_sasl_client(make_client, mechanism)
        await under_test.loop.settle()
        error = under_test.metadata.fatal_error
        assert isinstance(error, SaslAuthenticationFailedError)
        assert str(error) == "SAY-THREE: RuntimeError was raised by the mechanism or the token provider"
        assert isinstance(error.__cause__, RuntimeError)
        assert isinstance(error.__cause__.__cause__, StopIteration)

    async def test_a_time_out_of_its_own_may_pass_and_is_not_told_as_ours(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        mechanism = Mechanism()
        mechanism.error = TimeoutError("of a vault")
        under_test = make_sasl_client(make_client, mechanism)
        await under_test.loop.settle()
        assert under_test.metadata.fatal_error is None
        why = under_test.metadata.describe_failure()
        assert "SAY-THREE: TimeoutError was raised by the mechanism or the token provider" in why
        mechanism.error = None
        await under_test.loop.advance(1)
        await under_test.started()

    async def test_close_waits_for_the_clean_up_of_an_obsolete_authentication(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        mechanism = Unheeding()
        mechanism.is_ready.clear()
        under_test = make_sasl_client(make_client, mechanism)
        await under_test.loop.settle()
        closing = asyncio.create_task(under_test.client.close())
        await under_test.loop.settle()
        assert not closing.done()
        mechanism.is_ready.set()
        await closing

    async def test_a_client_is_closed_though_it_does_not_end(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        mechanism = Unheeding()
        mechanism.is_ready.clear()
        under_test = make_sasl_client(make_client, mechanism, request_timeout_ms=self.LIMIT)
        await under_test.loop.settle()
        closing = asyncio.create_task(under_test.client.close())
        await under_test.loop.advance(self.LIMIT / 1000)
        await closing
        mechanism.is_ready.set()


class TestCounts:
    """Kafka's metrics of authentications."""

    async def test_an_authentication_counts_when_it_succeeds(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        under_test = await make_sasl_client(make_client, Mechanism()).connected(1)
        counts = under_test.client.connection_counts
        assert counts.authenticated.total == counts.created.total > 0
        assert (counts.authentication_failed.total, counts.reauthenticated.total) == (0, 0)

    async def test_one_that_the_broker_refuses_has_failed_and_one_that_is_lost_has_not(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        server = SaslServer(cluster[1])
        mechanism = Mechanism()
        mechanism.is_ready.clear()
        under_test = make_sasl_client(make_client, mechanism)
        await under_test.loop.settle()
        counts = under_test.client.connection_counts
        cluster[1].transport.lose()
        await under_test.loop.advance(0.2)
        assert (counts.authenticated.total, counts.authentication_failed.total) == (0, 0)
        server.refuses = "wrong password"
        mechanism.is_ready.set()
        await under_test.loop.settle()
        assert (counts.authenticated.total, counts.authentication_failed.total) == (0, 1)

    async def test_renewals_are_counted_apart_with_their_time(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        server = SaslServer(cluster[2], lifetime_ms=10_000)
        mechanism = Mechanism()
        under_test = await make_sasl_client(make_client, mechanism).connected(2)
        counts = under_test.client.connection_counts
        first = counts.authenticated.total
        mechanism.is_ready.clear()
        await under_test.loop.advance(9.6)
        mechanism.is_ready.set()
        await under_test.loop.settle()
        assert (counts.authenticated.total, counts.reauthenticated.total) == (first, 1)
        assert 99 <= counts.reauthentication_time.maximum(under_test.now) <= 1_200
        server.refuses = "no more"
        await under_test.loop.advance(9.6)
        assert (counts.reauthentication_failed.total, counts.authentication_failed.total) == (1, 0)


class TestRenewal:
    async def test_a_session_is_renewed_in_the_last_part_of_its_life(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        server = SaslServer(cluster[1], lifetime_ms=10_000)
        under_test = await make_sasl_client(make_client, Mechanism()).connected(1)
        said = len(server.said)
        await under_test.loop.advance(8.4)
        assert len(server.said) == said
        await under_test.loop.advance(1.2)
        assert server.said[said:] == [b"one", b"three"] * len(cluster[1].transports)
        assert state_of(under_test, 1) is ConnectionState.READY
        await under_test.loop.advance(10)
        assert len(server.said) > said + 2, "again and again"

    async def test_a_session_of_under_a_second_is_renewed_once_a_second(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        """Brokers refuse more, and close the connection at a request after the session's end (KIP-368)."""
        SaslServer(cluster[1])
        server = SaslServer(cluster[2], lifetime_ms=400)
        under_test = await make_sasl_client(make_client, Mechanism()).connected(2)
        await under_test.loop.advance(0.3)
        assert under_test.client.ready(under_test.node(2), under_test.now)
        for renewals in range(3):
            await under_test.loop.advance(0.1)
            assert not under_test.client.ready(under_test.node(2), under_test.now), "requests wait for the next one"
            assert len(server.said) == 2 + 2 * renewals
            await under_test.loop.advance(0.6)
            assert len(server.said) == 2 + 2 * renewals
            await under_test.loop.advance(0.1)
            assert len(server.said) == 4 + 2 * renewals
            assert under_test.client.ready(under_test.node(2), under_test.now)
            await under_test.loop.advance(0.25)
        assert len(cluster[2].transports) == 1

    async def test_a_renewal_that_comes_too_early_for_the_broker_costs_the_connection_only(
        self, make_client: MakeClient, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        SaslServer(cluster[1])
        server = SaslServer(cluster[2], lifetime_ms=10_000)
        under_test = await make_sasl_client(make_client, Mechanism()).connected(2)
        cluster[2].answering[ApiKey.SASL_HANDSHAKE] = lambda request: request.respond(
            error_code=IllegalSaslStateError.code, mechanisms=[]
        )
        await under_test.loop.advance(9.6)
        assert state_of(under_test, 2) is ConnectionState.DISCONNECTED
        text = "\n".join(record.message for record in caplog.records)
        assert "two:2 did not let the session be renewed" in text
        assert "PLAINTEXT" not in text
        cluster[2].answering[ApiKey.SASL_HANDSHAKE] = server.handshake
        await under_test.connected(2)

    async def test_requests_in_flight_stay_and_the_next_ones_wait(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[2], lifetime_ms=10_000)
        SaslServer(cluster[1])
        under_test = await make_sasl_client(make_client, Mechanism()).connected(2)
        answers = [send(under_test, 2), send(under_test, 2)]
        await under_test.loop.advance(9.6)
        assert [request.api_key for request in cluster[2].requests][-1] == ApiKey.LIST_GROUPS, "SASL waits for them"
        assert not under_test.client.ready(under_test.node(2), under_test.now)
        for request in list(cluster[2].pending):
            request.respond()
        await under_test.loop.settle()
        assert [answer.result().error for answer in answers] == [None, None]
        assert under_test.client.ready(under_test.node(2), under_test.now)
        assert len(cluster[2].transports) == 1

    async def test_a_slow_request_is_waited_for_as_long_as_it_may_take(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        """Brokers answer the requests of a connection one after the other."""
        SaslServer(cluster[1])
        server = SaslServer(cluster[2], lifetime_ms=10_000)
        under_test = await make_sasl_client(make_client, Mechanism(), **QUICK_SET_UP).connected(2)
        await under_test.loop.advance(8)
        answer = send(under_test, 2)
        await under_test.loop.advance(19.9)
        assert not answer.done()
        assert len(server.said) == 2
        cluster[2].pending.pop().respond()
        await under_test.loop.settle()
        assert answer.result().error is None
        assert len(server.said) == 4
        assert under_test.client.ready(under_test.node(2), under_test.now)
        assert len(cluster[2].transports) == 1

    async def test_the_end_of_a_throttle_is_waited_for(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        """The broker reads nothing from us until then; the session may end meanwhile."""
        SaslServer(cluster[1])
        server = SaslServer(cluster[2], lifetime_ms=10_000)
        under_test = await make_sasl_client(make_client, Mechanism(), **QUICK_SET_UP).connected(2)
        await under_test.loop.advance(8)
        answer = send(under_test, 2)
        await under_test.loop.settle()
        cluster[2].pending.pop().respond(throttle_time=6_000)
        await under_test.loop.advance(5.9)
        assert answer.result().error is None
        assert state_of(under_test, 2) is ConnectionState.AUTHENTICATING
        assert len(server.said) == 2
        await under_test.loop.advance(0.1)
        assert len(server.said) == 4
        assert under_test.client.ready(under_test.node(2), under_test.now)

    async def test_an_answer_that_throttles_is_waited_out_too(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        server = SaslServer(cluster[2], lifetime_ms=10_000)
        under_test = await make_sasl_client(make_client, Mechanism(), **QUICK_SET_UP).connected(2)
        send(under_test, 2)
        await under_test.loop.advance(9.6)
        cluster[2].pending.pop().respond(throttle_time=6_000)
        await under_test.loop.advance(5.9)
        assert len(server.said) == 2
        await under_test.loop.advance(0.1)
        assert len(server.said) == 4

    async def test_after_a_long_silence_the_connection_stays(
        self, make_client: MakeClient, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Its first request is preceded by a probe, whose answer begins nothing."""
        SaslServer(cluster[1])
        server = SaslServer(cluster[2], lifetime_ms=60_000)
        under_test = await make_sasl_client(make_client, Mechanism()).connected(2)
        await under_test.loop.advance(58)
        assert cluster[2].count(ApiKey.API_VERSIONS) == 2
        assert cluster[2].count(ApiKey.SASL_HANDSHAKE) == 2
        assert len(server.said) == 4
        assert state_of(under_test, 2) is ConnectionState.READY
        assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []

    async def test_a_probe_is_waited_for(
        self, make_client: MakeClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("random.random", lambda: 0.0)
        SaslServer(cluster[1])
        server = SaslServer(cluster[2], lifetime_ms=40_000)
        under_test = await make_sasl_client(make_client, Mechanism()).connected(2)
        cluster[2].answers.discard(ApiKey.API_VERSIONS)
        await under_test.loop.advance(32)
        send(under_test, 2, expects_response=False)
        await under_test.loop.advance(3)
        assert state_of(under_test, 2) is ConnectionState.AUTHENTICATING
        probe, sent = cluster[2].pending
        cluster[2].transport.unanswered.remove(sent)  # it has no answer
        cluster[2].answer_api_versions(probe)
        await under_test.loop.settle()
        assert len(server.said) == 4
        assert under_test.client.ready(under_test.node(2), under_test.now)

    async def test_a_broker_that_does_not_answer_it_is_given_up_after_request_timeout_ms(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        SaslServer(cluster[2], lifetime_ms=10_000)
        under_test = await make_sasl_client(make_client, Mechanism(), **QUICK_SET_UP).connected(2)
        del cluster[2].answering[ApiKey.SASL_HANDSHAKE]
        await under_test.loop.advance(8.5 + 19.9)
        assert state_of(under_test, 2) is ConnectionState.AUTHENTICATING
        await under_test.loop.advance(1.1)
        assert state_of(under_test, 2) is ConnectionState.DISCONNECTED

    async def test_a_refusal_ends_the_connection(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        SaslServer(cluster[1])
        server = SaslServer(cluster[2], lifetime_ms=10_000)
        under_test = await make_sasl_client(make_client, Mechanism()).connected(2)
        server.refuses = "revoked"
        answer = send(under_test, 2)
        await under_test.loop.advance(9.6)
        cluster[2].pending.pop().respond()
        await under_test.loop.settle()
        assert answer.result().error is None, "requests from before are answered"
        assert state_of(under_test, 2) is ConnectionState.AUTHENTICATION_FAILED

    async def test_it_waits_for_a_large_request_to_be_written(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        SaslServer(cluster[1])
        server = SaslServer(cluster[2], lifetime_ms=10_000)
        under_test = await make_sasl_client(make_client, Mechanism()).connected(2)
        cluster[2].transport.is_stalled = True
        answer = send(under_test, 2)
        await under_test.loop.advance(9.6)
        assert len(server.said) == 2
        assert under_test.loop.fired < 1_000, "and does not spin meanwhile"
        cluster[2].transport.resume()
        cluster[2].pending.pop().respond()
        await under_test.loop.advance(0.1)
        assert len(server.said) == 4
        assert answer.result().error is None

    @pytest.mark.parametrize(
        ("lifetime_ms", "fraction", "delay"), [(10_000, 0, 8.5), (10_000, 1, 9.5), (1_200, 0, 1.05), (400, 1, 0.38)]
    )
    def test_the_moment_is_spread_over_the_last_part_of_the_life(
        self, lifetime_ms: int, fraction: float, delay: float
    ) -> None:
        assert renewal_delay(lifetime_ms, fraction) == pytest.approx(delay)

    def test_a_session_without_end_is_not_renewed(self) -> None:
        assert renewal_delay(0, 0.5) == float("inf")


def test_a_session_ends_only_by_failing() -> None:
    assert AUTHENTICATION_STATES.is_final(AuthenticationState.FAILED)
    assert not AUTHENTICATION_STATES.is_final(AuthenticationState.AUTHENTICATED)
