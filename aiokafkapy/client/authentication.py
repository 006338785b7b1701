"""SASL on the client's connections: a client is authenticated before a connection is used, and again before its session
ends.

Owns the mechanism, the exchange under way on each connection, and the times at which sessions are renewed (KIP-368).
Knows no mechanism's bytes, which are ``security.sasl``'s, and closes nothing: the network client gets the outcome by a
callback. Kafka's counterparts are ``SaslClientAuthenticator`` and the part of ``Selector`` that begins
re-authentication.

Rules:

- One task for each authentication. It ends with its connection at the latest.
- A session is renewed at 85 to 95 % of its life. Requests in flight stay in flight; the next ones wait for the new
  session, so that the broker's answers keep their order. Brokers let a connection be authenticated again once a second:
  after a shorter session requests wait for that second, because a request in an expired session costs the connection.
- The broker is asked once every request in flight is answered and it no longer throttles us. It reads nothing before
  that, and the time-out of a question that waits behind a slow Produce request would cost that request its connection.
- Long work (a token, PBKDF2, Kerberos) happens outside the event loop's turn. Some of it is the user's code: a call
  that returns no token, or an exchange that never ends, is abandoned after request_timeout_ms.
- ``AuthenticationFailedError`` means that one side refused the other. Any other failure is a lost
  connection, which may be tried again. A refusal of credentials that have been replaced meanwhile counts as one, too.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from ..common import milliseconds
from ..errors import (
    AuthenticationFailedError,
    DisconnectedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
    make,
)
from ..observability import get_logger
from ..protocol.api import ApiKey
from ..protocol.messages import build_request
from ..security.sasl.wire import MAX_RECEIVE_BYTES
from ..states import StateTable
from ..worker_thread import run_in_thread
from .nodes.client_request import ClientRequest, ClientResponse
from .nodes.node_readiness import NodeReadiness
from .request_pipeline import RequestPipeline
from .transport.connection import BrokerConnection
from .transport.connection_counts import ConnectionCounts

if TYPE_CHECKING:
    from ..protocol.codec import Struct
    from ..security.sasl.mechanism import SaslClientExchange, SaslMechanism

__all__ = ["AUTHENTICATION_STATES", "AuthenticationState", "Authenticator", "renewal_delay"]

T = TypeVar("T")

_RENEW_FROM: Final = 0.85
_RENEW_UNTIL: Final = 0.95
_NOT_BEFORE: Final = 1.05
"""Seconds; Kafka refuses to authenticate again within one."""
_CLOSED: Final = "the broker closed the connection during the authentication"

logger = get_logger(__name__)


class AuthenticationState(Enum):
    """The progress of a connection's authentication."""

    PREPARING = "the mechanism gets ready: it may need a token"
    HANDSHAKE = "the broker is asked whether it has the mechanism"
    EXCHANGE = "challenges and responses"
    AUTHENTICATED = "the session has begun"
    FAILED = "refused, or out of time"


_S = AuthenticationState

AUTHENTICATION_STATES: Final = StateTable(
    "authentication",
    _S.PREPARING,
    {
        _S.PREPARING: {_S.HANDSHAKE, _S.FAILED},
        _S.HANDSHAKE: {_S.EXCHANGE, _S.FAILED},
        _S.EXCHANGE: {_S.AUTHENTICATED, _S.FAILED},
        _S.AUTHENTICATED: {_S.PREPARING},
        _S.FAILED: (),
    },
)


def renewal_delay(lifetime_ms: int, fraction: float) -> float:
    """Seconds until a session of this life is renewed; ``fraction`` of 0 to 1 spreads clients over the last part of it.

    Infinite when the session has no end (0).
    """
    if lifetime_ms <= 0:
        return math.inf
    lifetime = lifetime_ms / 1000
    delay = lifetime * (_RENEW_FROM + (_RENEW_UNTIL - _RENEW_FROM) * fraction)
    return max(delay, _NOT_BEFORE) if lifetime > _NOT_BEFORE else delay


class Authenticator:
    """Authenticates connections with one mechanism, which may be exchanged for another."""

    def __init__(
        self,
        mechanism: SaslMechanism,
        nodes: NodeReadiness,
        pipeline: RequestPipeline,
        *,
        loop: asyncio.AbstractEventLoop,
        request_timeout: float,
        counts: ConnectionCounts,
        wait_for_change: Callable[[], Awaitable[None]],
        on_ready: Callable[[BrokerConnection, float], None],
        on_failed: Callable[[BrokerConnection, KafkaError], None],
    ) -> None:
        self.mechanism = mechanism
        self._nodes = nodes
        self._pipeline = pipeline
        self._loop = loop
        self._request_timeout = request_timeout
        self._counts = counts
        self._wait_for_change = wait_for_change
        self._on_ready = on_ready
        self._on_failed = on_failed
        self._sessions: dict[BrokerConnection, _Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, connection: BrokerConnection) -> None:
        """Authenticate a connection, for the first time or again; ends in ``on_ready``, in ``on_failed``, or with the
        connection.
        """
        session = self._sessions.get(connection)
        if session is None:
            session = self._sessions[connection] = _Session(self.mechanism)
        else:
            session.change(_S.PREPARING)
            session.is_renewal = True
        session.began = self._loop.time()
        session.renew_at = math.inf
        session.answer = None
        self._nodes.states.authenticating(connection.node_id)
        self._start(connection, session)

    def forget(self, connection: BrokerConnection) -> None:
        """The connection has ended."""
        session = self._sessions.pop(connection, None)
        if session is not None and session.task is not None and not self._loop.is_closed():
            session.task.cancel()

    def is_reading(self, connection: BrokerConnection) -> bool:
        """True from an answer's arrival until it is read. If the connection ends meanwhile, the answer has the reason:
        brokers send a refusal together with the end of the connection.
        """
        session = self._sessions.get(connection)
        if session is None or session.answer is None or session.state is _S.AUTHENTICATED:
            return False
        return session.answer.done()

    def renew_sessions(self, now: float) -> None:
        """Authenticate again if the session's end is near."""
        for connection, session in list(self._sessions.items()):
            if session.renew_at <= now:
                self.begin(connection)

    def next_renewal(self) -> float:
        """The next time at which ``renew_sessions`` has something to do; infinite when no session ends."""
        return min((session.renew_at for session in self._sessions.values()), default=math.inf)

    def use(self, mechanism: SaslMechanism) -> None:
        """Authenticate with ``mechanism`` from now on, and close the previous one unless it is the same.

        An exchange in which the previous one has sent nothing yet goes on with this one.
        """
        if mechanism is not self.mechanism:  # a user's own mechanism may be the same object, with other credentials
            self._close_mechanism()
        self.mechanism = mechanism
        for connection, session in self._sessions.items():
            if session.state is _S.PREPARING and session.task is not None:
                session.task.cancel()
                self._start(connection, session)

    async def close(self) -> None:
        """Close the mechanism, and return when no task is left; all connections must have been forgotten before."""
        self._close_mechanism()
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    # asyncio callbacks

    def _on_task_done(self, connection: BrokerConnection, session: _Session, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._sessions.get(connection) is not session or session.task is not task:
            return  # the connection has ended meanwhile
        error: BaseException | None = KafkaError("the authentication was cancelled")
        if not task.cancelled():
            error = task.exception()
        now = self._loop.time()
        if error is None:
            if session.is_renewal:
                self._counts.record_reauthentication(now - session.began, now)
            else:
                self._counts.record_authentication(now)
            self._on_ready(connection, now)
            return
        session.change(_S.FAILED)
        if session.mechanism is not self.mechanism:
            error = DisconnectedError("the credentials were replaced during the authentication")
        if not isinstance(error, KafkaError):  # of a mechanism or token provider of the user's
            # Its message may contain a token or a password: it is left to the chained traceback, and logs get our text.
            text = f"{self.mechanism.name}: {type(error).__name__} was raised by the mechanism or the token provider"
            kind = KafkaConnectionError if isinstance(error, TimeoutError) else SaslAuthenticationFailedError
            error, cause = kind(text), error
            error.__cause__ = cause
        if isinstance(error, AuthenticationFailedError):
            self._counts.record_refusal(now, is_renewal=session.is_renewal)
        self._on_failed(connection, error)

    # internals

    def _start(self, connection: BrokerConnection, session: _Session) -> None:
        session.mechanism = self.mechanism
        session.task = task = self._loop.create_task(
            self._authenticate(connection, session), name=f"aiokafkapy authenticate to {connection.address}"
        )
        self._tasks.add(task)
        task.add_done_callback(partial(self._on_task_done, connection, session))

    def _close_mechanism(self) -> None:
        """Any exception of the user's code is logged, and has no other effect."""
        try:
            self.mechanism.close()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a CancelledError too: the client that is closed was not cancelled
            logger.error("sasl.mechanism_not_closed", mechanism=self.mechanism.name, error=type(error).__name__)

    async def _authenticate(self, connection: BrokerConnection, session: _Session) -> None:
        mechanism = session.mechanism
        deadline = self._loop.time() + self._request_timeout
        work = asyncio.ensure_future(mechanism.prepare())
        await self._outcome(work, deadline, f"{mechanism.name}: there were no credentials")
        await self._wait_for_turn(connection.node_id, session.renewable_at)
        session.change(_S.HANDSHAKE)
        await self._handshake(connection, session)
        session.change(_S.EXCHANGE)
        lifetime_ms = await self._exchange(connection, mechanism)
        if connection.is_closed:
            raise DisconnectedError(_CLOSED)
        now = self._loop.time()
        session.renew_at = now + renewal_delay(lifetime_ms, random.random())
        session.renewable_at = now + _NOT_BEFORE
        session.change(_S.AUTHENTICATED)

    async def _exchange(self, connection: BrokerConnection, mechanism: SaslMechanism) -> int:
        """Challenges and responses to the end; returns the session's life in ms."""
        exchange = mechanism.exchange(self._nodes.states.peer_name(connection.node_id))
        deadline = self._loop.time() + self._request_timeout
        challenge, lifetime_ms = b"", 0
        while (token := await self._respond(mechanism, exchange, challenge, deadline)) is not None:
            if len(token) > MAX_RECEIVE_BYTES:
                raise SaslAuthenticationFailedError(
                    f"{mechanism.name}: the token has {len(token):,} bytes; brokers take {MAX_RECEIVE_BYTES:,} "
                    "(sasl.server.max.receive.size)"
                )
            answer = await self._ask(connection, ApiKey.SASL_AUTHENTICATE, auth_bytes=token)
            if answer.error_code:
                raise make(answer.error_code, _refusal(mechanism.name, connection.address, answer.error_message))
            challenge, lifetime_ms = answer.auth_bytes, milliseconds(getattr(answer, "session_lifetime", None))
            if exchange.is_complete:
                break
        if not exchange.is_complete:
            raise SaslAuthenticationFailedError(
                f"{mechanism.name}: the exchange with {connection.address} ended before it was complete"
            )
        return lifetime_ms

    async def _respond(
        self, mechanism: SaslMechanism, exchange: SaslClientExchange, challenge: bytes, deadline: float
    ) -> bytes | None:
        what = f"{mechanism.name}: the exchange was not complete"
        if self._loop.time() >= deadline:
            raise self._timed_out(what)
        if not mechanism.blocks:
            return exchange.respond(challenge)
        return await self._outcome(run_in_thread(self._loop, exchange.respond, challenge), deadline, what)

    async def _outcome(self, work: asyncio.Future[T], deadline: float, what: str) -> T:
        """The outcome of the user's code, which may hang, in a thread too, and may ignore a cancellation.

        Raises KafkaTimeoutError at ``deadline``; then the code is no longer waited for.
        """
        alarm, timer = self._alarm(deadline)
        work.add_done_callback(_retrieve)
        try:
            await asyncio.wait((work, alarm), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait((work, alarm), return_when=asyncio.FIRST_COMPLETED)
            raise
        finally:
            timer.cancel()
        if work.done():
            return work.result()
        work.cancel()
        raise self._timed_out(what)

    def _timed_out(self, what: str) -> KafkaTimeoutError:
        return KafkaTimeoutError(f"{what} within request_timeout_ms={round(self._request_timeout * 1000)}")

    def _alarm(self, when: float) -> tuple[asyncio.Future[None], asyncio.TimerHandle]:
        """A future that is done at this time, and its timer."""
        alarm = self._loop.create_future()
        return alarm, self._loop.call_at(when, alarm.set_result, None)

    async def _wait_for_turn(self, node_id: int, not_before: float) -> None:
        """Wait until the broker would read a request at once; those in flight have time-outs of their own."""
        if not_before > self._loop.time():
            alarm, timer = self._alarm(not_before)
            try:
                await asyncio.wait((alarm,))  # wait() does not cancel the future, which the timer is about to set
            finally:
                timer.cancel()
        nodes = self._nodes
        while not nodes.in_flight.is_empty(node_id) or nodes.throttle_delay(node_id, self._loop.time()) > 0:
            await self._wait_for_change()

    async def _handshake(self, connection: BrokerConnection, session: _Session) -> None:
        mechanism = session.mechanism.name
        answer = await self._ask(connection, ApiKey.SASL_HANDSHAKE, mechanism=mechanism)
        if answer.error_code == UnsupportedSaslMechanismError.code:
            offered = ", ".join(sorted(answer.mechanisms)) or "none"
            raise UnsupportedSaslMechanismError(
                f"{connection.address} does not have sasl_mechanism={mechanism!r}; it has: {offered}"
            )
        if answer.error_code == IllegalSaslStateError.code and session.is_renewal:
            raise DisconnectedError(
                f"{connection.address} did not let the session be renewed: it needs a new connection"
            )
        if answer.error_code == IllegalSaslStateError.code:
            raise IllegalSaslStateError(
                f"the listener at {connection.address} has no SASL: write security_protocol='PLAINTEXT', or 'SSL' "
                "where it speaks TLS, without sasl_… options"
            )
        if answer.error_code:
            raise make(answer.error_code, _refusal(mechanism, connection.address, None))

    async def _ask(self, connection: BrokerConnection, api_key: ApiKey, **fields: object) -> Struct:
        """Write a request although the node is not ready; returns the answer's body."""
        if connection.is_closed:
            raise DisconnectedError(_CLOSED)
        # SaslHandshake v0 is followed by bytes without headers; every broker of Kafka 1.0 and later has v1.
        min_version = 1 if api_key is ApiKey.SASL_HANDSHAKE else None
        request = ClientRequest(
            connection.node_id,
            api_key,
            lambda version: build_request(api_key, version, **fields),
            min_version=min_version,
        )
        session = self._sessions[connection]
        answer: asyncio.Future[ClientResponse] = self._loop.create_future()
        timeout = self._request_timeout
        if not session.is_renewal:
            timeout = min(timeout, self._nodes.states.setup_timeout(connection.node_id))
        try:
            version = self._pipeline.usable_version(request)
        except UnsupportedVersionError as error:
            raise AuthenticationFailedError(f"{connection.address} takes no SASL: {error}") from error
        self._pipeline.write(connection, request, version, self._loop.time(), timeout, answer)
        session.answer = answer
        return (await answer).body_or_raise()


class _Session:
    """The authentication of one connection: its state, task and mechanism, and the times of its beginning, its
    renewal, and the earliest renewal that the broker allows.
    """

    __slots__ = ("answer", "began", "is_renewal", "mechanism", "renew_at", "renewable_at", "state", "task")

    def __init__(self, mechanism: SaslMechanism) -> None:
        self.mechanism = mechanism
        self.state = AUTHENTICATION_STATES.initial
        self.task: asyncio.Task[None] | None = None
        self.answer: asyncio.Future[ClientResponse] | None = None
        self.began = 0.0
        self.renew_at = math.inf
        self.renewable_at = -math.inf
        self.is_renewal = False

    def change(self, new: AuthenticationState) -> None:
        self.state = AUTHENTICATION_STATES.transition(self.state, new)


def _retrieve(work: asyncio.Future[T]) -> None:
    """Mark the error of abandoned work as retrieved, so that asyncio does not log it."""
    if not work.cancelled():
        work.exception()


def _refusal(mechanism: str, address: str, words: str | None) -> str:
    said = f": {words}" if words else ""
    return f"{address} refused the credentials ({mechanism}){said}"
