"""The ``FaultProxy`` itself: its fault verbs, the requests it has seen, and the ports of all brokers.

Every verb applies to all nodes, or with ``node_id`` to one, which need not have been seen yet. An API key may be an
``ApiKey`` or its number; None means every API. ``on_request``, ``delay``, ``drop_next``, ``request_count`` and
``clear`` are called like those of the dev broker's ``controls``; for connections, ``cut`` is ``drop_connections``
there, and ``stall`` and ``resume`` are ``stall_connections`` with True and False.

Rules:

- A verb is in effect when it returns, for existing and new connections; data already handed to the operating system is
  not recalled.
- Responses keep the order of their requests, with any faults.
- Each address that a broker advertises gets a port here as soon as it is seen, and clients see no other. Frames that
  cannot be decoded are passed on unchanged.
- TLS ends here, on each side separately: clients may use it, and so may the connections to brokers. Faults apply to
  the bytes within; handshakes are always made.
- Leaving the block leaves no connection, task, timer or listening port.
- A recording has the client's requests and the answers that it got, faults included, with the brokers' own addresses,
  so that two recordings of one conversation are alike.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from ...broker.faults.armed_faults import error_code
from ...client.tap.wire_tap import DEFAULT_MAX_BYTES
from ...common import LAST_PORT, parse_addresses
from ...errors import KafkaError
from ...protocol.api import ApiKey
from ...security.handshake_errors import explain_failure
from ..recording import ConnectionRecorder, Recorder
from ..servers.ports import LOOPBACK, free_port
from ..tls import Given, Handshake, ServerTls, cluster_contexts
from .addresses import rewrite_addresses
from .gates import Gate
from .requests import Answer, Hold, Request, SentBatch
from .rules import Fault, OnRequest, Rules
from .traffic import Mode, PerNode

if TYPE_CHECKING:
    from ..certificates import TestCertificates

__all__ = ["FaultProxy"]

_KEPT_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of requests that are kept, the latest ones."""

_PASS_ON: Final = Answer()


class FaultProxy:
    """A proxy in front of a cluster: ``bootstrap_servers`` are addresses of some or all real brokers.

    Enter it with ``async with`` on the loop that serves it, and give clients its own ``bootstrap_servers``. It sends
    no requests of its own, so the cluster may start later. ``requests`` has every request that was read completely, in
    order of arrival; the bytes of the oldest ones are dropped beyond 64 MiB in all.

    ``record`` is a file's path: the conversation is written there, for ``ReplayBroker``, until the block is left or
    the file has ``max_bytes``. ``hash_payloads`` replaces records' keys, values and header values by digests, and
    ``hide_names`` replaces the given names, such as a topic's, by others; SASL's bytes, tokens and passwords are never
    written. Entering raises OSError if the file cannot be opened, and leaving if it could not be written. ``port`` is
    that of the first address; 0 is a free one.

    ``tls`` lets clients use TLS, by a broker's options, such as ``{"ssl_keystore_location": "proxy.pem"}``, or with
    True by ``certificates`` that are made for it: ``proxy.certificates.client_options()`` are then a client's options.
    ``cluster_tls`` are a client's options of TLS for the connections to brokers, ``{}`` for the system's authorities.
    Raises ConfigurationError for unusable options.

    A fault is for all nodes, or with ``node_id`` for one. No id is an error: the id of an unseen broker counts as soon
    as a response names it. ``times`` is 1 or more, or None for all until ``clear``; else ValueError is raised.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        record: str | os.PathLike[str] | None = None,
        hash_payloads: bool = False,
        hide_names: Sequence[str] = (),
        max_bytes: int = DEFAULT_MAX_BYTES,
        port: int = 0,
        tls: Given = False,
        cluster_tls: Mapping[str, Any] | None = None,
    ) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes={max_bytes}: write 1 or more")
        if not 0 <= port <= LAST_PORT:
            raise ValueError(f"port={port}: write 0 to {LAST_PORT}")
        self._bootstrap = parse_addresses(bootstrap_servers)
        self._first_port = port
        self.client_tls = ServerTls(tls)
        self.cluster_tls = None if cluster_tls is None else cluster_contexts(cluster_tls)
        # The recording
        self._record = record
        self._hash_payloads = hash_payloads
        self._hide_names = hide_names
        self._max_bytes = max_bytes
        self.recorder: Recorder | None = None
        # Observed
        self.requests: list[Request] = []
        self.answers_received = 0
        self.answers_sent = 0
        self.strangers = 0
        """Connections that were ended because their bytes are not frames, or, with ``tls``, not a handshake."""
        self.cluster_failure: KafkaError | None = None
        """The error of the last failed handshake with a broker: clients only see a connection that ends."""
        self._kept: deque[tuple[Request, int]] = deque()
        self._kept_bytes = 0
        self._connections = 0
        self._watchers: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        # Settings, read by gates and links
        self.modes: PerNode[Mode] = PerNode(Mode.PASS)
        self.rates: PerNode[float | None] = PerNode(None)
        self.refusals: PerNode[bool] = PerNode(True)
        self._rules = Rules()
        # Addresses
        self._gates: dict[tuple[str, int], Gate] = {}
        self._nodes: dict[int, Gate] = {}  # by the last advertised address of each

    async def __aenter__(self) -> Self:
        """Listen; ``bootstrap_servers`` is known from here on."""
        self.refusals.set(value=False, node_id=None)
        try:
            if self._record is not None:
                self.recorder = Recorder(
                    self._record,
                    hash_payloads=self._hash_payloads,
                    hide_names=self._hide_names,
                    max_bytes=self._max_bytes,
                )
                self.recorder.begin(self._bootstrap)
            for number, address in enumerate(self._bootstrap):
                self._gate(address, 0 if number else self._first_port)
            self._apply(None)
        except OSError:
            self.refuse()
            if self.recorder is not None:
                self.recorder.end()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Stop listening and end all connections."""
        if self.recorder is not None:
            self.recorder.end()  # before the connections are cut, which the cluster does not do
        self.refuse()
        links = [link for gate in self._gates.values() for link in gate.links]
        self.cut()
        await asyncio.gather(*(link.ended() for link in links))
        if self.recorder is not None and self.recorder.failure is not None:
            raise self.recorder.failure

    # addresses

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients; they never change."""
        return ",".join(f"{LOOPBACK}:{self._gates[address].port}" for address in self._bootstrap)

    @property
    def ports(self) -> set[int]:
        """All ports so far, whether they listen or not."""
        return {gate.port for gate in self._gates.values()}

    @property
    def node_ids(self) -> list[int]:
        """The brokers seen so far in responses."""
        return sorted(self._nodes)

    def address_of(self, node_id: int) -> tuple[str, int]:
        """Host and port where clients reach a broker; KeyError unless it was seen in a response."""
        if node_id not in self._nodes:
            raise KeyError(f"node {node_id} was not seen: {self.node_ids} were")
        return LOOPBACK, self._nodes[node_id].port

    @property
    def certificates(self) -> TestCertificates | None:
        """The certificates that were made for ``tls=True``."""
        return self.client_tls.certificates

    # observations

    def requests_of(self, api_key: int, node_id: int | None = None, *, since: int = 0) -> list[Request]:
        """The requests of one API so far; ``since``: a ``mark()``."""
        return [
            request
            for request in self.requests[since:]
            if request.api_key == api_key and node_id in (None, request.node_id)
        ]

    def request_count(self, api_key: int, node_id: int | None = None, *, since: int = 0) -> int:
        """The number of requests of an API, answered or not."""
        return len(self.requests_of(api_key, node_id, since=since))

    def batches(self, *, since: int = 0) -> list[SentBatch]:
        """All record batches sent whose bytes are still kept."""
        return [
            batch for request in self.requests_of(ApiKey.PRODUCE, since=since) if request.frame
            for batch in request.batches
        ]  # fmt: skip

    def mark(self) -> int:
        """The current position in ``requests``, for ``since``."""
        return len(self.requests)

    def connection_count(self, node_id: int | None = None) -> int:
        """The number of clients connected now."""
        return sum(len(gate.links) for gate in self._chosen(node_id))

    def connected_at(self, node_id: int | None = None) -> list[float]:
        """The times at which connections were accepted, in seconds of ``time.monotonic()``, ascending."""
        return sorted(moment for gate in self._chosen(node_id) for moment in gate.connected_at)

    async def seen(self, api_key: int, count: int = 1, *, since: int = 0, timeout: float = 10) -> Request:
        """Wait until an API was asked ``count`` times, and return that request; TimeoutError after
        ``timeout`` seconds, and ValueError for a count below 1.
        """
        if count < 1:
            raise ValueError(f"count={count}: write 1 or more")
        await self.until(lambda: self.request_count(api_key, since=since) >= count, timeout)
        return self.requests_of(api_key, since=since)[count - 1]

    async def until(self, holds: Callable[[], bool], timeout: float = 10) -> None:
        """Wait until a condition holds; it is checked after each request, response, and opened or closed connection.

        TimeoutError after ``timeout`` seconds.
        """
        if not holds():
            watcher = asyncio.get_running_loop().create_future()
            self._watchers.append((holds, watcher))
            async with asyncio.timeout(timeout):
                await watcher

    # faults of connections

    def cut(self, node_id: int | None = None, *, reset: bool = True) -> int:
        """End all connections, by RST or (``reset=False``) orderly; return their number, 0 for an unseen node. New
        ones are accepted.
        """
        links = [link for gate in self._chosen(node_id) for link in gate.links]
        for link in links:
            link.cut(reset=reset)
        return len(links)

    def refuse(self, node_id: int | None = None) -> None:
        """Close the ports: new connections are refused, existing ones go on. ``accept`` ends it; ``clear`` and
        ``resume`` do not. Does nothing if they are closed.
        """
        self.refusals.set(value=True, node_id=node_id)
        self._apply(node_id)

    async def accept(self, node_id: int | None = None) -> None:
        """Open the ports again. Raises OSError if another process has taken one."""
        self.refusals.set(value=False, node_id=node_id)
        self._apply(node_id)

    def stall(self, node_id: int | None = None) -> None:
        """Stop reading and writing: connections stay and are accepted, and buffers fill. ``resume`` ends it. For an
        unseen node it begins when a response names it.
        """
        self.modes.set(value=Mode.STALL, node_id=node_id)
        self._apply(node_id)

    def half_open(self, node_id: int | None = None) -> None:
        """Swallow all data in both directions: half-open connections, as after a power cut of the peer."""
        self.modes.set(value=Mode.SWALLOW, node_id=node_id)
        self._apply(node_id)

    def slow(self, bytes_per_second: float | None, node_id: int | None = None) -> None:
        """Limit the bytes per second in each direction of each connection; None removes the limit. Raises ValueError
        for 0 or less, or an infinite one.
        """
        if bytes_per_second is not None and not 0 < bytes_per_second < math.inf:
            raise ValueError(f"bytes_per_second={bytes_per_second}: write more than 0, or call stall()")
        self.rates.set(value=bytes_per_second, node_id=node_id)
        self._apply(node_id)

    def resume(self, node_id: int | None = None) -> None:
        """End ``stall``, ``half_open`` and ``slow``. Connections that have swallowed data are cut."""
        for gate in self._chosen(node_id):
            for link in list(gate.links):
                link.heal()
        self.rates.set(value=None, node_id=node_id)
        self.modes.set(value=Mode.PASS, node_id=node_id)
        self._apply(node_id)

    # faults of requests

    def on_request(self, api_key: int | None, function: OnRequest | None, node_id: int | None = None) -> None:
        """Let ``function(request)`` decide on every request of this API before the broker gets it; None removes it.

        It returns None (pass on) or an ``Answer``, and may change ``request.frame``. It must not block; an exception
        ends the connection and goes to the loop's exception handler.
        """
        self._rules.set_function(api_key, node_id, function)

    def answer_next(
        self, api_key: int | None, answer: Answer, *, times: int | None = 1, node_id: int | None = None
    ) -> None:
        """Apply ``answer`` to the next ``times`` requests of this API (None: all, until ``clear``)."""
        self._rules.arm(Fault(api_key, node_id, lambda _: answer, times))

    def delay(self, api_key: int | None, seconds: float, node_id: int | None = None) -> None:
        """Delay every response of this API by ``seconds``, several in flight in parallel; 0 ends it. Raises ValueError
        for a delay that is negative or not finite.
        """
        self._rules.set_delay(api_key, node_id, seconds)

    def hold(self, api_key: int | None, *, times: int | None = None, node_id: int | None = None) -> Hold:
        """Let the broker handle requests, but hold its responses back until the hold is released."""
        hold = Hold()
        self._rules.arm(Fault(api_key, node_id, lambda _: Answer(hold=hold), times, hold))
        return hold

    def drop_next(
        self, api_key: int | None, *, after: bool = True, times: int | None = 1, node_id: int | None = None
    ) -> None:
        """End the connection instead of answering the next requests of this API, handled (``after``) or not."""
        self.answer_next(api_key, Answer(forward=after, lose=True, cut=True), times=times, node_id=node_id)

    def swallow_next(
        self, api_key: int | None, *, after: bool = False, times: int | None = 1, node_id: int | None = None
    ) -> None:
        """Make the connection half-open at the next request of this API, handled (``after``) or not.

        No more data passes on it; other and new connections are not affected.
        """
        self.answer_next(api_key, Answer(forward=after, lose=True, swallow=True), times=times, node_id=node_id)

    def truncate(
        self, api_key: int | None, after_bytes: int, *, times: int | None = 1, node_id: int | None = None
    ) -> None:
        """Cut the next responses after ``after_bytes``, including the four of the size, and end the connection. Raises
        ValueError below 0.
        """
        if after_bytes < 0:
            raise ValueError(f"after_bytes={after_bytes}: write 0 or more")
        torn = Answer(replace=lambda _, answer: answer[:after_bytes], cut=True)
        self.answer_next(api_key, torn, times=times, node_id=node_id)

    def corrupt(
        self, api_key: int | None, *, times: int | None = 1, node_id: int | None = None, request: bool = False
    ) -> None:
        """Garble the next answers, or with ``request=True`` the next requests on their way to the broker.

        Size, correlation id and a request's header are kept; every byte after them is inverted.
        """
        decide = _garble if request else _garbled_answer
        self._rules.arm(Fault(api_key, node_id, decide, times))

    def fail_produce(
        self,
        error: type[KafkaError] | int,
        *,
        times: int | None = 1,
        after_append: bool = False,
        node_id: int | None = None,
        **fields: object,
    ) -> None:
        """Answer the next Produce requests with an error, a class or a code, for all their partitions.

        By default the broker does not get them; with ``after_append=True`` it handles them. ``fields``: see
        ``Request.produce_error``. Raises ValueError for an error without a code. For errors of other APIs use
        ``on_request`` and ``Request.respond``.
        """
        code = error_code(error)
        answer = Answer(
            forward=after_append,
            replace=lambda request, _: request.produce_error(code, **fields),
        )
        self.answer_next(ApiKey.PRODUCE, answer, times=times, node_id=node_id)

    def clear(self, api_key: int | None = None) -> None:
        """Remove the faults of an API; None: of all APIs, forget the requests seen, and ``resume``.

        Held responses are released. Ports that ``refuse`` closed stay closed.
        """
        self._rules.clear(api_key)
        if api_key is None:
            self.forget_requests()
            self.resume()

    def forget_requests(self) -> None:
        """Empty ``requests``, as if none had been seen; a ``mark()`` from before is invalid."""
        self.requests.clear()
        self._kept.clear()
        self._kept_bytes = 0

    # for the gates and links

    def next_connection(self) -> int:
        """A number for a new connection."""
        self._connections += 1
        return self._connections

    def decide(self, request: Request) -> Answer:
        """Record a request, and decide on its ``Answer``."""
        self._note(request)
        answer = self._rules.decide(request) or _PASS_ON
        delay = self._rules.delay(request)
        self.changed()
        return replace(answer, delay=answer.delay + delay) if delay > 0 else answer

    def answer_received(self, request: Request | None, frame: bytes) -> bytes:
        """A broker's response with our addresses in place of the real ones."""
        self.answers_received += 1
        self.changed()
        api_key, version = (-1, -1) if request is None else (request.api_key, request.version)
        return rewrite_addresses(api_key, version, frame, self._rename)

    def answer_sent(self) -> None:
        """A response, or its replacement, was sent to a client."""
        self.answers_sent += 1
        self.changed()

    def met_stranger(self) -> None:
        """A client's bytes are not frames."""
        self.strangers += 1
        self.changed()

    def greet_broker(self, connection: asyncio.Protocol, host: str) -> Handshake | None:
        """The handshake of a new connection to a broker; None without TLS."""
        return None if self.cluster_tls is None else Handshake(self.cluster_tls, connection, host)

    def broker_refused(self, address: tuple[str, int], error: OSError) -> None:
        """A handshake with a broker failed."""
        self.cluster_failure = explain_failure(error, *address)
        self.changed()

    def recorder_of(self, connection: int, address: tuple[str, int], node_id: int | None) -> ConnectionRecorder | None:
        """The recorder of a new connection to a broker's address; None without a recording."""
        return None if self.recorder is None else self.recorder.connected(connection, address, node_id)

    def as_sent(self, request: Request | None, data: bytes) -> bytes:
        """The recorded form of a response, with the brokers' own addresses."""
        if request is None or len(data) < 8 or int.from_bytes(data[:4]) != len(data) - 4:
            return data
        return rewrite_addresses(request.api_key, request.version, data[4:], self._original)

    def changed(self) -> None:
        """Check the conditions of ``until`` again."""
        waiting, self._watchers = self._watchers, []
        for holds, watcher in waiting:
            if watcher.done():
                continue
            if holds():
                watcher.set_result(None)
            else:
                self._watchers.append((holds, watcher))

    # internals

    def _chosen(self, node_id: int | None) -> list[Gate]:
        return [gate for gate in self._gates.values() if node_id in (None, gate.node_id)]

    def _apply(self, node_id: int | None) -> None:
        for gate in self._chosen(node_id):
            gate.apply()

    def _gate(self, address: tuple[str, int], port: int = 0) -> Gate:
        """The gate of a real address, created when it is first seen."""
        gate = self._gates.get(address)
        if gate is None:
            gate = self._gates[address] = Gate(self, address, port or free_port(self.ports))
            gate.apply()
        return gate

    def _rename(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        if host == LOOPBACK and port in self.ports:
            return host, port  # ours already: the broker advertises the proxy itself
        gate = self._gate((host, port))
        gate.node_id = node_id
        self._nodes[node_id] = gate
        return LOOPBACK, gate.port

    def _original(self, _: int, host: str, port: int) -> tuple[str, int]:
        found = (gate.target for gate in self._gates.values() if (LOOPBACK, gate.port) == (host, port))
        return next(found, (host, port))

    def _note(self, request: Request) -> None:
        self.requests.append(request)
        self._kept.append((request, len(request.frame)))
        self._kept_bytes += len(request.frame)
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            old, size = self._kept.popleft()
            self._kept_bytes -= size
            old.forget()


def _garbled_answer(_: Request) -> Answer:
    return Answer(replace=lambda _, answer: answer[:8] + _inverted(answer[8:]))


def _garble(request: Request) -> None:
    request.frame = request.frame[: request.body_at] + _inverted(request.frame[request.body_at :])


def _inverted(data: bytes) -> bytes:
    return data.translate(bytes(range(255, -1, -1)))
