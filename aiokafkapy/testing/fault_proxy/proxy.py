"""The `FaultProxy` itself: its verbs, what it has seen, and the ports of all brokers.

Every verb is for all nodes, or with `node_id` for one, which need not have been seen yet. An API key may be an
`ApiKey` or its number; None means every API. Where the dev broker's `controls` know a verb, it has the same name here.

Rules:
- a verb holds when it returns, for connections there are and for those to come; what the operating system has been
  given already is not called back;
- answers keep the order of their requests, whatever becomes of each;
- each address that a broker advertises has a port of its own here from the moment it is seen, and clients are told of
  no other; what cannot be decoded is passed on as it is (TLS cannot: the listener must be a plaintext one);
- leaving the block leaves no connection, task or timer, and no port that listens.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from aiokafkapy.broker.faults import error_code
from aiokafkapy.common import parse_addresses
from aiokafkapy.errors import KafkaError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.ports import LOOPBACK, free_port

from .addresses import rewrite_addresses
from .gates import Gate, PerNode
from .links import Mode
from .requests import Answer, Hold, Request, SentBatch
from .rules import Fault, OnRequest, Rules

__all__ = ["FaultProxy"]

_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Of the requests seen, at most so many bytes are kept, the latest."""

_PASS_ON: Final = Answer()


class FaultProxy:
    """Stands before a cluster: `bootstrap_servers` are the real brokers' addresses, some of them or all.

    Enter it with `async with` on the loop that is to serve it, and give clients its own `bootstrap_servers`. Nothing is
    asked of the cluster, which may come up later. `requests` has every request that was read whole, in order of
    arrival; the bytes of old ones are forgotten when all of them are more than 64 MiB.
    """

    def __init__(self, bootstrap_servers: str | Sequence[str]) -> None:
        self._bootstrap = parse_addresses(bootstrap_servers)
        # What is seen
        self.requests: list[Request] = []
        self.answers_received = 0
        self.answers_sent = 0
        self._kept: deque[tuple[Request, int]] = deque()
        self._kept_bytes = 0
        self._connections = 0
        self._watchers: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        # What is done, for gates and links to look at
        self.modes: PerNode[Mode] = PerNode(Mode.PASS)
        self.rates: PerNode[float | None] = PerNode(None)
        self.refusals: PerNode[bool] = PerNode(True)
        self._rules = Rules()
        # Where
        self._gates: dict[tuple[str, int], Gate] = {}
        self._nodes: dict[int, Gate] = {}  # by the last address that each was said to have

    async def __aenter__(self) -> Self:
        """Listen; `bootstrap_servers` is known from here on."""
        self.refusals.set(False, None)
        try:
            for address in self._bootstrap:
                self._gate(address)
            self._apply(None)
        except OSError:
            self.refuse()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Listen no more and end all connections."""
        self.refuse()
        links = [link for gate in self._gates.values() for link in gate.links]
        self.cut()
        await asyncio.gather(*(link.ended() for link in links))

    # addresses

    @property
    def bootstrap_servers(self) -> str:
        """What clients are to be given; it stays the same."""
        return ",".join(f"{LOOPBACK}:{self._gates[address].port}" for address in self._bootstrap)

    @property
    def ports(self) -> set[int]:
        """All ports so far, whether they listen or not."""
        return {gate.port for gate in self._gates.values()}

    @property
    def node_ids(self) -> list[int]:
        """The brokers seen so far in answers."""
        return sorted(self._nodes)

    def address_of(self, node_id: int) -> tuple[str, int]:
        """Host and port where clients find a broker; KeyError unless it was seen in an answer."""
        if node_id not in self._nodes:
            raise KeyError(f"node {node_id} was not seen: {self.node_ids} were")
        return LOOPBACK, self._nodes[node_id].port

    # what is seen

    def requests_of(self, api_key: int, node_id: int | None = None, *, since: int = 0) -> list[Request]:
        """The requests of one API so far; `since`: a `mark()`."""
        return [
            request
            for request in self.requests[since:]
            if request.api_key == api_key and node_id in (None, request.node_id)
        ]

    def request_count(self, api_key: int, node_id: int | None = None, *, since: int = 0) -> int:
        """How many requests of an API there were, answered or not."""
        return len(self.requests_of(api_key, node_id, since=since))

    def batches(self, *, since: int = 0) -> list[SentBatch]:
        """All record batches sent, so far as their bytes are kept."""
        return [
            batch for request in self.requests_of(ApiKey.PRODUCE, since=since) if request.frame
            for batch in request.batches
        ]  # fmt: skip

    def mark(self) -> int:
        """The present moment, for `since`."""
        return len(self.requests)

    def connection_count(self, node_id: int | None = None) -> int:
        """How many clients are connected now."""
        return sum(len(gate.links) for gate in self._chosen(node_id))

    def connected_at(self, node_id: int | None = None) -> list[float]:
        """When each connection so far was accepted, in seconds of `time.monotonic()`, ascending."""
        return sorted(moment for gate in self._chosen(node_id) for moment in gate.connected_at)

    async def seen(self, api_key: int, count: int = 1, *, since: int = 0, timeout: float = 10) -> Request:
        """Wait until an API was asked `count` times, and return that request; TimeoutError after `timeout` seconds."""
        await self.until(lambda: self.request_count(api_key, since=since) >= count, timeout)
        return self.requests_of(api_key, since=since)[count - 1]

    async def until(self, holds: Callable[[], bool], timeout: float = 10) -> None:
        """Wait until something holds, looked at after each request, answer and connection that comes or goes.

        TimeoutError after `timeout` seconds.
        """
        if not holds():
            watcher = asyncio.get_running_loop().create_future()
            self._watchers.append((holds, watcher))
            async with asyncio.timeout(timeout):
                await watcher

    # what is done to connections

    def cut(self, node_id: int | None = None, *, reset: bool = True) -> int:
        """End all connections, by RST or (`reset=False`) in order; how many they were. New ones are welcome."""
        links = [link for gate in self._chosen(node_id) for link in gate.links]
        for link in links:
            link.cut(reset=reset)
        return len(links)

    def refuse(self, node_id: int | None = None) -> None:
        """Close the ports: new connections are refused, those there are go on."""
        self.refusals.set(True, node_id)
        self._apply(node_id)

    async def accept(self, node_id: int | None = None) -> None:
        """Open the ports again. OSError when somebody else has taken one."""
        self.refusals.set(False, node_id)
        self._apply(node_id)

    def stall(self, node_id: int | None = None) -> None:
        """Read and write nothing: connections stay and are accepted, and pipes fill. `resume` ends it."""
        self.modes.set(Mode.STALL, node_id)
        self._apply(node_id)

    def half_open(self, node_id: int | None = None) -> None:
        """Swallow all that comes, both ways: the peer is gone without a word, as after a power cut."""
        self.modes.set(Mode.SWALLOW, node_id)
        self._apply(node_id)

    def slow(self, bytes_per_second: float | None, node_id: int | None = None) -> None:
        """Let so many bytes a second through, each way, on each connection; None: as many as come."""
        if bytes_per_second is not None and not bytes_per_second > 0:
            raise ValueError(f"bytes_per_second={bytes_per_second}: nothing would come through, which is `stall`")
        self.rates.set(bytes_per_second, node_id)
        self._apply(node_id)

    def resume(self, node_id: int | None = None) -> None:
        """End `stall`, `half_open` and `slow`. Connections that swallowed something are cut: they lack it."""
        for gate in self._chosen(node_id):
            for link in list(gate.links):
                link.heal()
        self.rates.set(None, node_id)
        self.modes.set(Mode.PASS, node_id)
        self._apply(node_id)

    # what is done to requests

    def on_request(self, api_key: int | None, function: OnRequest | None, node_id: int | None = None) -> None:
        """Let `function(request)` decide on every request of this API before the broker gets it; None removes it.

        It returns None (go on) or an `Answer`, and may change `request.frame`. It must not block; an exception ends the
        connection and is told to the loop's exception handler.
        """
        self._rules.set_function(api_key, node_id, function)

    def answer_next(
        self, api_key: int | None, answer: Answer, *, times: int | None = 1, node_id: int | None = None
    ) -> None:
        """Treat the next `times` requests of this API so (None: all, until `clear`)."""
        self._rules.arm(Fault(api_key, node_id, lambda _: answer, times))

    def delay(self, api_key: int | None, seconds: float, node_id: int | None = None) -> None:
        """Hold every answer of this API back for so long, those in flight side by side; 0 ends it."""
        self._rules.set_delay(api_key, node_id, seconds)

    def hold(self, api_key: int | None, *, times: int | None = None, node_id: int | None = None) -> Hold:
        """The broker carries requests out, and its answers wait until the hold is released."""
        hold = Hold()
        self._rules.arm(Fault(api_key, node_id, lambda _: Answer(hold=hold), times, hold))
        return hold

    def drop_next(
        self, api_key: int | None, *, after: bool = True, times: int | None = 1, node_id: int | None = None
    ) -> None:
        """End the connection instead of answering the next requests of this API, carried out (`after`) or not."""
        self.answer_next(api_key, Answer(forward=after, lose=True, cut=True), times=times, node_id=node_id)

    def swallow_next(
        self, api_key: int | None, *, after: bool = False, times: int | None = 1, node_id: int | None = None
    ) -> None:
        """The connection goes half-open with the next request of this API, carried out (`after`) or not.

        Nothing moves on it any more; the others, and new ones, are well.
        """
        self.answer_next(api_key, Answer(forward=after, lose=True, swallow=True), times=times, node_id=node_id)

    def truncate(
        self, api_key: int | None, after_bytes: int, *, times: int | None = 1, node_id: int | None = None
    ) -> None:
        """Of the next answers only so many bytes arrive, the four of the size among them; then the connection ends."""
        torn = Answer(replace=lambda _, answer: answer[:after_bytes], cut=True)
        self.answer_next(api_key, torn, times=times, node_id=node_id)

    def corrupt(
        self, api_key: int | None, *, times: int | None = 1, node_id: int | None = None, request: bool = False
    ) -> None:
        """Garble the next answers, or with `request=True` the next requests on their way to the broker.

        Size, correlation id and (of a request) the header stay as they are; of the bytes behind, each is inverted.
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
        **fields: Any,
    ) -> None:
        """Answer the next Produce requests with an error, a class or a code, for all their partitions.

        By default the broker does not get them; with `after_append=True` it carries them out. `fields`: see
        `Request.produce_error`. Other APIs have their errors in other places: `on_request` and `Request.respond`.
        """
        code = error_code(error)
        answer = Answer(
            forward=after_append,
            replace=lambda request, _: request.produce_error(code, **fields),
        )
        self.answer_next(ApiKey.PRODUCE, answer, times=times, node_id=node_id)

    def clear(self, api_key: int | None = None) -> None:
        """Forget what was said of an API; None: of all of them, and the requests seen, and `resume`.

        Answers that are held are let go. Ports that `refuse` closed stay closed.
        """
        self._rules.clear(api_key)
        if api_key is None:
            self.forget_requests()
            self.resume()

    def forget_requests(self) -> None:
        """Begin again with `requests`, as if none had been seen; a `mark()` from before is of no more use."""
        self.requests.clear()
        self._kept.clear()
        self._kept_bytes = 0

    # for the gates

    def next_connection(self) -> int:
        """A number for a new connection."""
        self._connections += 1
        return self._connections

    def decide(self, request: Request) -> Answer:
        """Note a request, and say what becomes of it."""
        self._note(request)
        answer = self._rules.decide(request) or _PASS_ON
        delay = self._rules.delay(request)
        self.changed()
        return replace(answer, delay=answer.delay + delay) if delay > 0 else answer

    def answer_received(self, request: Request | None, frame: bytes) -> bytes:
        """What a client gets of a broker's answer: our addresses in the place of the real ones."""
        self.answers_received += 1
        self.changed()
        api_key, version = (-1, -1) if request is None else (request.api_key, request.version)
        return rewrite_addresses(api_key, version, frame, self._rename)

    def answer_sent(self) -> None:
        """An answer has gone out, or what was put in its place."""
        self.answers_sent += 1
        self.changed()

    def changed(self) -> None:
        """Look at what is waited for."""
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

    def _gate(self, address: tuple[str, int]) -> Gate:
        """The gate of a real address, made when it is first seen."""
        gate = self._gates.get(address)
        if gate is None:
            gate = self._gates[address] = Gate(self, address, free_port(self.ports))
            gate.apply()
        return gate

    def _rename(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        if host == LOOPBACK and port in self.ports:
            return host, port  # ours already: the broker advertises the proxy itself
        gate = self._gate((host, port))
        gate.node_id = node_id
        self._nodes[node_id] = gate
        return LOOPBACK, gate.port

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
