"""Sends one request and awaits its response, with retries: for callers that do not pipeline requests.

Knows only the ``WaitingClient`` protocol of the client. Kafka's counterpart is ``NetworkClientUtils`` (``awaitReady``,
``sendAndReceive``).

Rules:

- A call takes no longer than its time-out, connecting included. Cancellation and time-out leave the request in flight,
  where its response is dropped, and never close a connection that others use.
- A node that cannot be connected to is an error at once: by then another may be the controller, coordinator or leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, TypedDict, TypeVar

from ..cluster.metadata import Metadata
from ..common import MAX_INT, ExponentialBackoff, Node
from ..errors import DisconnectedError, KafkaError, KafkaTimeoutError
from ..protocol.api import api_name
from ..protocol.codec import Message, Struct
from .nodes.client_request import ClientRequest, ClientResponse

if TYPE_CHECKING:
    from .nodes.node_readiness import NodeReadiness

__all__ = [
    "ATTEMPTS",
    "RequestClient",
    "RequestOptions",
    "WaitingClient",
    "attempt_timeout",
    "await_ready",
    "next_refusal",
    "request_timeout_ms",
    "retry_until",
    "send_and_receive",
    "unless_refused",
]

T = TypeVar("T")

ATTEMPTS: Final = 3
"""The least number of attempts that fit into a call's time-out."""


class RequestOptions(TypedDict, total=False):
    """The options of ``ClientRequest`` that are passed on."""

    min_version: int | None
    max_version: int | None


class WaitingClient(Protocol):
    """The part of the network client that is needed here."""

    @property
    def is_active(self) -> bool:
        """False once the client is closed."""

    @property
    def nodes(self) -> NodeReadiness:
        """The state of each node's connection."""

    def ready(self, node: Node, now: float) -> bool:
        """True when a request may be sent to the node; otherwise begins to connect."""

    def least_loaded_node(self, now: float) -> Node | None:
        """The node for a request that any node can answer."""

    def send(self, request: ClientRequest, now: float) -> asyncio.Future[ClientResponse]:
        """Write a request."""

    async def wait_for_change(self) -> None:
        """Return after anything that readiness depends on."""


class RequestClient(Protocol):
    """The part of the network client that asks any node, for callers that need no more."""

    async def send_and_wait(self, api_key: int, build: Callable[[int], Message]) -> Struct:
        """Send a request to any node, and return the answer's body."""


async def await_ready(client: WaitingClient, node: Node | None, clock: Callable[[], float]) -> Node:
    """Wait until ``node``, or the least loaded one if None, can take a request.

    Raises DisconnectedError if the client is closed, or when an attempt to connect to ``node`` fails meanwhile; an
    attempt that failed before the call does not count.
    """
    has_begun = False
    while client.is_active:
        now = clock()
        if node is not None and has_begun and client.nodes.connection_failed(node):
            raise _no_connection(client.nodes, node)
        chosen = node if node is not None else client.least_loaded_node(now)
        if chosen is not None and client.ready(chosen, now):
            return chosen
        has_begun = has_begun or (node is not None and client.nodes.is_preparing_connection(node.node_id))
        await client.wait_for_change()
    raise DisconnectedError("the network client is closed")


async def send_and_receive(
    client: WaitingClient,
    api_key: int,
    build: Callable[[int], Message],
    *,
    node: Node | None,
    timeout: float,
    clock: Callable[[], float],
    describe_failure: Callable[[], str],
    options: RequestOptions,
) -> Struct:
    """Send a request and return the answer's body; raises KafkaTimeoutError with the cause, or the response's error."""
    try:
        async with asyncio.timeout(timeout):
            ready_node = await await_ready(client, node, clock)
            response = await client.send(ClientRequest(ready_node.node_id, api_key, build, **options), clock())
    except TimeoutError:
        place = f"node {node.node_id} ({node.address})" if node is not None else "any broker"
        message = f"no answer to {api_name(api_key)} from {place} within {timeout:g} s: {describe_failure()}"
        raise KafkaTimeoutError(message) from None
    return response.body_or_raise()


async def unless_refused(answer: Awaitable[T], refusal: Awaitable[NoReturn]) -> T:
    """The result of ``answer``, or the error of ``refusal`` if that comes first or at the same time."""
    racing = asyncio.ensure_future(answer), asyncio.ensure_future(refusal)
    try:
        await asyncio.wait(racing, return_when=asyncio.FIRST_COMPLETED)
        # A refusal fails the answer too, with an error that would be tried again.
        return await (racing[1] if racing[1].done() else racing[0])
    finally:
        for task in racing:
            task.cancel()
        await asyncio.gather(*racing, return_exceptions=True)


async def next_refusal(metadata: Metadata, client: WaitingClient, known: KafkaError | None) -> KafkaError | None:
    """The brokers' next refusal of the credentials; None once the client is closed.

    A refusal that was ``known`` before does not count: it may be cured by now, as the next attempt will show.
    """
    while client.is_active:
        error = metadata.fatal_error
        if error is not None and error is not known:
            return error
        await client.wait_for_change()
    return None


def _no_connection(nodes: NodeReadiness, node: Node) -> DisconnectedError:
    state = nodes.states.get(node.node_id)
    cause = None if state is None else state.last_error
    return DisconnectedError(f"no connection to node {node.node_id}: {cause or 'it was lost'}")


def attempt_timeout(timeout: float, request_timeout: float, attempts: int = ATTEMPTS) -> float:
    """Seconds for one attempt: the call's time-out divided by ``attempts``, or ``request_timeout`` if that is less.
    After a broker that hangs there is thus time to ask another, or to learn that a leader has moved.
    """
    return min(max(timeout, 0.0) / attempts, request_timeout)


def _nothing(error: KafkaError) -> None:
    """The default of ``delay_for``."""


async def retry_until(
    ask: Callable[[], Awaitable[T]],
    timeout: float,
    backoff: ExponentialBackoff,
    *,
    before_next: Callable[[KafkaError], object],
    describe: Callable[[float, KafkaError | None], str],
    but_not: type[KafkaError] | tuple[()] = (),
    delay_for: Callable[[KafkaError], float | None] = _nothing,
) -> T:
    """Return the result of ``ask``, called again with back-off after a retriable error, unless that is ``but_not``.

    Raises any other error at once, and KafkaTimeoutError after ``timeout`` seconds, with the message
    ``describe(timeout, last_error)``. ``before_next`` is called with the error before each further attempt's back-off,
    and may raise; ``delay_for`` may give the seconds for an error, in place of the back-off.
    """
    last: KafkaError | None = None
    attempts = 0
    try:
        async with asyncio.timeout(timeout):
            while True:
                try:
                    return await ask()
                except KafkaError as error:
                    if not error.retriable or isinstance(error, but_not):
                        raise
                    last = error
                before_next(last)
                delay = delay_for(last)
                if delay is None:
                    delay = backoff.delay(attempts)
                    attempts += 1
                await asyncio.sleep(delay)
    except TimeoutError as error:
        if isinstance(error, KafkaError):
            raise
        raise KafkaTimeoutError(describe(timeout, last)) from last


def request_timeout_ms(seconds: float) -> int:
    """A time-out for a request's field, which takes 24 days at most."""
    return int(min(seconds * 1000, MAX_INT))
