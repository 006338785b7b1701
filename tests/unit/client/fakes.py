"""A loop with a virtual clock, and brokers without sockets, for the tests of the network client."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from aiokafkapy.client.config import ClientConfig
from aiokafkapy.client.network_client import NetworkClient
from aiokafkapy.client.nodes.client_request import ClientRequest, ClientResponse
from aiokafkapy.client.nodes.connection_states import ConnectionState, NodeConnectionState
from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.common import Buffer
from aiokafkapy.errors import KafkaConnectionError
from aiokafkapy.protocol.api import ApiKey, client_versions
from aiokafkapy.protocol.codec import RequestHeader, decode_request_body, decode_request_header, encode_response
from aiokafkapy.protocol.framing import FrameDecoder
from aiokafkapy.protocol.messages import build_request, build_response
from aiokafkapy.testing.clock import VirtualClock


class FakeTimerHandle:
    """The handle that ``call_at`` returns."""

    def __init__(self, when: float, callback: Callable[[], object]) -> None:
        self.when = when
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLoop:
    """The running loop, except that time and timers only move with ``advance``."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.real = asyncio.get_running_loop()
        self.fired = 0
        self.elsewhere = 0
        self.turns = 100
        """Turns of the real loop; after them, all code that needs no time to pass has run."""
        self._timers: list[tuple[float, int, FakeTimerHandle]] = []
        self._order = itertools.count()
        self.create_future = self.real.create_future
        self.create_task = self.real.create_task
        self.call_soon = self.real.call_soon
        self.is_closed = self.real.is_closed

    def time(self) -> float:
        return self.clock.time()

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> FakeTimerHandle:
        handle = FakeTimerHandle(when, lambda: callback(*args))
        heapq.heappush(self._timers, (when, next(self._order), handle))
        return handle

    def run_in_executor(self, executor: None, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run it in a later turn, which is ``elsewhere``: without the waiting callers."""
        future = self.real.create_future()

        def run() -> None:
            try:
                future.set_result(function(*args))
            except Exception as error:
                future.set_exception(error)

        self.elsewhere += 1
        self.real.call_soon(run)
        return future

    @property
    def armed(self) -> list[float]:
        """The times at which timers that are not cancelled fire."""
        return sorted(when for when, _, handle in self._timers if not handle.is_cancelled)

    async def settle(self) -> None:
        """Let everything run that can run without time passing."""
        ready = getattr(self.real, "_ready", None)  # uvloop does not show its own: there it takes all turns
        for _ in range(self.turns):
            await asyncio.sleep(0)
            self._fire_due()
            if ready is not None and not ready:
                return

    async def advance(self, seconds: float) -> None:
        """Let time pass; each timer fires at its own time."""
        end = self.clock.time() + seconds
        await self.settle()
        while (when := self._next_timer()) is not None and when <= end:
            self.clock.advance_to(max(when, self.clock.time()))
            await self.settle()
        self.clock.advance_to(end)
        await self.settle()

    def _next_timer(self) -> float | None:
        while self._timers and self._timers[0][2].is_cancelled:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _fire_due(self) -> None:
        while self._timers and self._timers[0][0] <= self.clock.time():
            _, _, handle = heapq.heappop(self._timers)
            if not handle.is_cancelled:
                self.fired += 1
                handle.callback()


class FakeTransport(asyncio.Transport):
    """Collects the written bytes; takes nothing while ``is_stalled``."""

    def __init__(self, protocol: Any, broker: FakeBroker) -> None:
        super().__init__()
        self.protocol = protocol
        self.broker = broker
        self.is_stalled = False
        self.is_closed = False
        self.writes: list[bytes] = []
        self.unanswered: deque[FakeRequest] = deque()
        self._decoder = FrameDecoder(10_000_000)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert (high, low) == (0, 0)

    def write(self, data: Any) -> None:
        self._take(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self._take(b"".join(list_of_data))

    def _take(self, data: bytes) -> None:
        assert not self.is_closed, "written after close"
        self.writes.append(data)
        if self.is_stalled or self.broker.takes_nothing:
            self.protocol.pause_writing()
        for frame in self._decoder.feed(data):
            header, position = decode_request_header(frame)
            self.broker.take(FakeRequest(self, header, decode_request_body(header, frame, position)))

    def resume(self) -> None:
        """The socket takes everything."""
        self.is_stalled = False
        self.protocol.resume_writing()

    def receive(self, data: bytes) -> None:
        """Bytes come from the broker."""
        if not self.is_closed:
            self.protocol.data_received(data)

    def lose(self, error: BaseException | None = None) -> None:
        """The connection goes."""
        if not self.is_closed:
            self.is_closed = True
            self.broker.transports.remove(self)
            self.protocol.connection_lost(error)

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self.lose)

    close = abort


class FakeRequest:
    """A request as a broker sees it."""

    def __init__(self, transport: FakeTransport, header: RequestHeader, body: Any) -> None:
        self.transport = transport
        self.header = header
        self.body = body

    @property
    def api_key(self) -> int:
        return self.header.api_key

    def frame(self, **fields: Any) -> bytes:
        """A response's bytes."""
        body = build_response(self.header.api_key, self.header.api_version, **fields)
        return encode_response(body, self.header.correlation_id)

    def respond(self, **fields: Any) -> None:
        """Answer."""
        self.answer(self.frame(**fields))

    def answer(self, frame: bytes) -> None:
        """Answer with these bytes; the broker's own later answers follow."""
        if self in self.transport.unanswered:
            self.transport.unanswered.remove(self)
        self.transport.receive(frame)
        self.transport.broker.answer_next(self.transport)


class FakeBroker:
    """One node: answers ApiVersions and Metadata by itself unless told otherwise; keeps all other requests."""

    def __init__(self, cluster: FakeCluster, node_id: int, host: str, port: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.host = host
        self.port = port
        self.behaviour = "accept"
        self.takes_nothing = False
        self.answers: set[int] = {ApiKey.API_VERSIONS, ApiKey.METADATA}
        self.answering: dict[int, Callable[[FakeRequest], None]] = {}
        self.versions = {int(key): client_versions(key) for key in ApiKey}
        self.requests: list[FakeRequest] = []
        self.pending: list[FakeRequest] = []
        self.transports: list[FakeTransport] = []

    @property
    def transport(self) -> FakeTransport:
        """The only connection."""
        (transport,) = self.transports
        return transport

    def count(self, api_key: int) -> int:
        """The number of requests of an API that came."""
        return sum(request.api_key == api_key for request in self.requests)

    def take(self, request: FakeRequest) -> None:
        self.requests.append(request)
        request.transport.unanswered.append(request)
        if request.api_key not in self.answers and request.api_key not in self.answering:
            self.pending.append(request)
        self.answer_next(request.transport)

    def answer_next(self, transport: FakeTransport) -> None:
        """Answer the oldest request of a connection if it is one that is answered unasked: brokers keep the order."""
        if transport.unanswered and transport.unanswered[0] not in self.pending:
            asyncio.get_running_loop().call_soon(self._answer_oldest, transport)

    def _answer_oldest(self, transport: FakeTransport) -> None:
        if transport.is_closed or not transport.unanswered or transport.unanswered[0] in self.pending:
            return
        request = transport.unanswered[0]
        if request.api_key == ApiKey.API_VERSIONS:
            self.answer_api_versions(request)
        elif request.api_key == ApiKey.METADATA:
            self.answer_metadata(request)
        else:
            self.answering[request.api_key](request)

    def answer_api_versions(self, request: FakeRequest) -> None:
        lowest, highest = self.versions[ApiKey.API_VERSIONS]
        keys = [{"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in self.versions.items()]
        if lowest <= request.header.api_version <= highest:
            request.respond(api_keys=keys)
        else:
            # A refusal has version 0 for any version of the request, and names the versions of this API alone.
            own = [key for key in keys if key["api_key"] == ApiKey.API_VERSIONS]
            body = build_response(ApiKey.API_VERSIONS, 0, error_code=35, api_keys=own)
            request.answer(encode_response(body, request.header.correlation_id))

    def answer_metadata(self, request: FakeRequest) -> None:
        request.respond(**self.cluster.metadata(request.body))


class FakeCluster:
    """Brokers by (host, port); topics as {name: {partition: leader}}."""

    def __init__(self, *addresses: tuple[int, str, int]) -> None:
        self.brokers = {(host, port): FakeBroker(self, node_id, host, port) for node_id, host, port in addresses}
        self.topics: dict[str, dict[int, int]] = {}
        self.odd_metadata: dict[str, Any] = {}
        """Fields that Metadata responses have in place of the right ones."""
        self.attempts: list[tuple[str, int]] = []

    def __getitem__(self, node_id: int) -> FakeBroker:
        return next(broker for broker in self.brokers.values() if broker.node_id == node_id)

    def go_down(self) -> None:
        """Every connection is lost, and no broker takes another."""
        for broker in self.brokers.values():
            broker.behaviour = "refuse"
            for transport in list(broker.transports):
                transport.lose()

    def come_back(self) -> None:
        """Every broker takes connections."""
        for broker in self.brokers.values():
            broker.behaviour = "accept"

    def metadata(self, request: Any) -> dict[str, Any]:
        """The fields of a Metadata response."""
        names = self.topics if request.topics is None else [topic.name for topic in request.topics]
        return {
            "brokers": [
                {"node_id": broker.node_id, "host": broker.host, "port": broker.port}
                for broker in self.brokers.values()
            ],
            "cluster_id": "fake",
            "controller_id": 1,
            "topics": [self._topic(name) for name in names],
        } | self.odd_metadata

    def _topic(self, name: str) -> dict[str, Any]:
        if name not in self.topics:
            return {"name": name, "error_code": 3}
        return {
            "name": name,
            "partitions": [
                {"partition_index": number, "leader_id": leader, "leader_epoch": 1, "replica_nodes": [leader]}
                for number, leader in self.topics[name].items()
            ],
        }

    # the connector's part

    async def connect(
        self,
        state: NodeConnectionState,
        protocol_factory: Callable[[str], asyncio.Protocol],
        on_address_failure: Callable[[str, BaseException], None],
    ) -> None:
        broker = self.brokers.get((state.host, state.port))
        address = f"{state.host}:{state.port}"
        self.attempts.append((state.host, state.port))
        if broker is None or broker.behaviour == "refuse":
            error = ConnectionRefusedError(111, "Connection refused")
            on_address_failure(address, error)
            raise KafkaConnectionError(f"cannot connect to {address}: {error}")
        if broker.behaviour == "hang":
            await asyncio.get_running_loop().create_future()
        protocol = protocol_factory(address)
        transport = FakeTransport(protocol, broker)
        broker.transports.append(transport)
        protocol.connection_made(transport)


class ClientUnderTest:
    """A NetworkClient on a FakeLoop and a FakeCluster."""

    def __init__(
        self, cluster: FakeCluster, bootstrap: str = "one:1", topics: Sequence[str] = (), **options: Any
    ) -> None:
        self.cluster = cluster
        self.loop = FakeLoop()
        self.wakeups = 0
        self.config = ClientConfig(bootstrap_servers=bootstrap, **options)
        self.metadata = Metadata.of(self.config)
        self.metadata.add_topics(topics)
        loop: Any = self.loop
        self.client = NetworkClient(self.config, self.metadata, loop=loop, wakeup=self._wake, connector=cluster)

    def _wake(self) -> None:
        self.wakeups += 1

    @property
    def now(self) -> float:
        return self.loop.time()

    def node(self, node_id: int) -> Any:
        return self.metadata.cluster.node_by_id(node_id)

    async def started(self) -> ClientUnderTest:
        """Let the first metadata come."""
        await self.loop.settle()
        assert not self.metadata.cluster.is_bootstrap
        return self

    async def connected(self, *node_ids: int) -> ClientUnderTest:
        """Let the nodes become ready."""
        await self.started()
        for node_id in node_ids:
            self.client.ready(self.node(node_id), self.now)
        await self.loop.settle()
        assert all(self.client.ready(self.node(node_id), self.now) for node_id in node_ids)
        return self


def joined(buffers: Sequence[Buffer]) -> bytes:
    """Buffers as one string of bytes."""
    return b"".join(buffers)


MakeClient = Callable[..., ClientUnderTest]
"""The fixture ``make_client``."""


def list_groups(version: int) -> Any:
    """A request that brokers keep until they are told to answer it."""
    return build_request(ApiKey.LIST_GROUPS, version)


def send(under_test: ClientUnderTest, node_id: int = 1, **options: Any) -> asyncio.Future[ClientResponse]:
    """Send such a request to a node that is ready."""
    return under_test.client.send(ClientRequest(node_id, ApiKey.LIST_GROUPS, list_groups, **options), under_test.now)


def state_of(under_test: ClientUnderTest, node_id: int) -> ConnectionState | None:
    """The state of a node's connection."""
    state = under_test.client.nodes.states.get(node_id)
    return None if state is None else state.state
