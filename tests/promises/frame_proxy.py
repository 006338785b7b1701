"""A proxy between the producer and a cluster that understands Kafka's frames, so that one fault fits every broker.

Each node of the cluster stands behind a `NodeProxy`; the addresses in answers are rewritten, so that clients never
reach a node directly. A test says what becomes of a request: passed on, answered with an error and not passed on,
passed on and its answer lost, held back, or replaced by any bytes. So what the dev broker's controls can do to the dev
broker can be done to Apache Kafka, in the same test.

Rules: answers keep the order of their requests; verbs hold from the next frame; whatever is counted was read whole from
the client; leaving the block leaves no connection and no task.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self
from uuid import UUID

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import (
    decode_request_body,
    decode_request_header,
    decode_response,
    encode_response,
)
from aiokafkapy.protocol.messages import build_response
from aiokafkapy.testing.ports import LOOPBACK, free_port

__all__ = ["Answer", "ClusterProxy", "Hold", "Request", "SentBatch"]

_SIZE = struct.Struct(">i")
_BATCH = struct.Struct(">qiibIhiqqqhii")
MAX_FRAME = 200 * 1024 * 1024


class SentBatch(NamedTuple):
    """The header of a record batch in a Produce request."""

    topic: str | UUID
    partition: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    crc: int


@dataclass(slots=True)
class Request:
    """A request that a client sent."""

    node_id: int
    api_key: int
    version: int
    correlation_id: int
    frame: bytes
    at: float
    link: int
    body_at: int = 0
    _body: Any = None

    @property
    def body(self) -> Any:
        """The decoded body."""
        if self._body is None:
            header, position = decode_request_header(self.frame)
            self._body = decode_request_body(header, self.frame, position)
        return self._body

    @property
    def batches(self) -> list[SentBatch]:
        """The batches of a Produce request."""
        found = []
        for topic in self.body.topic_data:
            for partition in topic.partition_data:
                header = _BATCH.unpack_from(bytes(partition.records))
                name = getattr(topic, "topic_id", None) or topic.name
                found.append(SentBatch(name, partition.index, *header[9:13], header[4]))
        return found

    @property
    def expects_answer(self) -> bool:
        """False for Produce with acks=0."""
        return self.api_key != ApiKey.PRODUCE or self.body.acks != 0

    def produce_error(self, code: int, *, partition: int | None = None, **fields: Any) -> bytes:
        """The frame of an answer to this Produce request: `code` for `partition`, or for all; 0 for the others."""
        topics = []
        for topic in self.body.topic_data:
            answers = [
                {"index": each.index, "base_offset": -1, "log_start_offset": -1}
                | ({"error_code": code, **fields} if partition in (None, each.index) else {})
                for each in topic.partition_data
            ]
            place = {"topic_id": topic.topic_id} if hasattr(topic, "topic_id") else {"name": topic.name}
            topics.append(place | {"partition_responses": answers})
        return encode_response(build_response(ApiKey.PRODUCE, self.version, responses=topics), self.correlation_id)


@dataclass(slots=True)
class Hold:
    """Answers that wait until `release`."""

    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Let them go, and those to come."""
        self.released.set()


Replace = Callable[[Request, bytes], bytes]


@dataclass(slots=True)
class Answer:
    """What becomes of a request, when it is not simply passed on.

    `forward`: the broker gets it. `replace`: makes what the client gets (any bytes, the frame's size included) of the
    broker's answer, or of nothing. `hold`: it waits for that. `lose`: the client gets nothing. `cut`: then the
    connection ends.
    """

    forward: bool = True
    replace: Replace | None = None
    hold: Hold | None = None
    lose: bool = False
    cut: bool = False


Rule = Callable[[Request], Answer | None]


class ClusterProxy:
    """All nodes of a cluster, each behind a port of its own. `targets` are node id, host and port of the real ones."""

    def __init__(self, targets: Sequence[tuple[int, str, int]]) -> None:
        self.nodes = {node_id: NodeProxy(self, node_id, host, port) for node_id, host, port in targets}
        self.requests: list[Request] = []
        self.frames_from_broker = 0  # also those that are held back
        self.answered = 0
        self.is_open = asyncio.Event()
        self.is_open.set()
        self._rules: dict[int, Rule] = {}
        self._watchers: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._addresses: list[tuple[bytes, bytes]] = []

    async def __aenter__(self) -> Self:
        for node in self.nodes.values():
            await node.accept()
            real = b"127.0.0.1" + _SIZE.pack(node.target[1])
            self._addresses.append((real, b"127.0.0.1" + _SIZE.pack(node.port)))
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.is_open.set()
        self.refuse()
        self.cut()
        await asyncio.gather(*(node.ended() for node in self.nodes.values()))

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all proxies."""
        return ",".join(f"{LOOPBACK}:{node.port}" for node in self.nodes.values())

    @property
    def ports(self) -> set[int]:
        """The ports of all proxies."""
        return {node.port for node in self.nodes.values()}

    # what is seen

    def requests_of(self, api_key: int, since: int = 0) -> list[Request]:
        """The requests of one API so far, in order of arrival; `since`: a `mark()`."""
        return [request for request in self.requests[since:] if request.api_key == api_key]

    def count(self, api_key: int, since: int = 0) -> int:
        """How many requests of an API there were."""
        return len(self.requests_of(api_key, since))

    def mark(self) -> int:
        """The present moment, for `since`."""
        return len(self.requests)

    def batches(self, since: int = 0) -> list[SentBatch]:
        """All record batches sent."""
        return [batch for request in self.requests_of(ApiKey.PRODUCE, since) for batch in request.batches]

    async def seen(self, api_key: int, count: int = 1, since: int = 0, timeout: float = 10) -> Request:
        """Wait until an API was asked `count` times; returns that request."""
        await self.until(lambda: self.count(api_key, since) >= count, timeout)
        return self.requests_of(api_key, since)[count - 1]

    async def until(self, holds: Callable[[], bool], timeout: float = 10) -> None:
        """Wait until something holds, looked at after each request, answer and connection."""
        if not holds():
            watcher = asyncio.get_running_loop().create_future()
            self._watchers.append((holds, watcher))
            async with asyncio.timeout(timeout):
                await watcher

    # what is done to requests

    def on(self, api_key: int, rule: Rule | None) -> None:
        """Let `rule` decide on every request of this API; it returns None to let one pass. None: no rule."""
        if rule is None:
            self._rules.pop(api_key, None)
        else:
            self._rules[api_key] = rule

    def next(self, api_key: int, answer: Answer | Callable[[Request], Answer], times: int = 1) -> None:
        """Treat the next requests of this API so; afterwards there is no rule."""

        def rule(request: Request) -> Answer:
            nonlocal times
            times -= 1
            if times <= 0:
                self.on(api_key, None)
            return answer(request) if callable(answer) else answer

        self.on(api_key, rule)

    def fail_produce(self, code: int, times: int = 1, *, after: bool = False, **fields: Any) -> None:
        """Answer the next Produce requests with an error, without or (`after`) with the broker carrying them out."""

        def replace(request: Request, _: bytes) -> bytes:
            return request.produce_error(code, **fields)

        self.next(ApiKey.PRODUCE, Answer(forward=after, replace=replace), times)

    def lose_answers(self, api_key: int = ApiKey.PRODUCE, times: int = 1) -> None:
        """The broker carries the next requests out and answers; instead of the answer the connection ends."""
        self.next(api_key, Answer(lose=True, cut=True), times)

    def hold_answers(self, api_key: int = ApiKey.PRODUCE) -> Hold:
        """The broker carries requests out, and its answers wait until the hold is released."""
        hold = Hold()
        self.on(api_key, lambda _: None if hold.released.is_set() else Answer(hold=hold))
        return hold

    # what is done to connections

    def stall(self) -> None:
        """Read and write nothing; connections stay, and are accepted."""
        self.is_open.clear()

    def resume(self) -> None:
        """End of the stall."""
        self.is_open.set()

    def cut(self) -> int:
        """End all connections by RST; how many they were."""
        return sum(node.cut() for node in self.nodes.values())

    def refuse(self) -> None:
        """Close the ports."""
        for node in self.nodes.values():
            node.refuse()

    def go_down(self) -> None:
        """The cluster vanishes: ports closed, connections reset."""
        self.refuse()
        self.cut()

    async def come_back(self) -> None:
        """The ports are open again."""
        for node in self.nodes.values():
            await node.accept()

    # for the nodes

    def decide(self, request: Request) -> Answer | None:
        """Note a request, and say what becomes of it."""
        self.requests.append(request)
        rule = self._rules.get(request.api_key)
        answer = rule(request) if rule is not None else None
        self.changed()
        return answer

    def rewrite(self, frame: bytes) -> bytes:
        """Our addresses instead of the real ones."""
        for real, ours in self._addresses:
            frame = frame.replace(real, ours)
        return frame

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


class NodeProxy:
    """One node's port."""

    def __init__(self, cluster: ClusterProxy, node_id: int, host: str, port: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.target = (host, port)
        self.port = free_port()
        self.connected_at: list[float] = []
        self._server: asyncio.Server | None = None
        self._links: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}

    @property
    def open_connections(self) -> int:
        """Clients connected now."""
        return len(self._links)

    async def accept(self) -> None:
        """Listen, unless we do."""
        if self._server is None:
            self._server = await asyncio.start_server(self._on_connected, LOOPBACK, self.port, limit=1 << 20)

    def refuse(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def cut(self) -> int:
        """End all connections."""
        for task, writers in self._links.items():
            _abort(writers)
            task.cancel()
        return len(self._links)

    async def ended(self) -> None:
        """Return when no connection is left."""
        if self._links:
            await asyncio.wait(list(self._links))

    def _on_connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Noted before anything can be awaited: a task that is cancelled before its first step would close nothing.
        if self._server is None:
            _abort([writer])
            return
        self.connected_at.append(time.monotonic())
        writers = [writer]
        task = asyncio.get_running_loop().create_task(self._serve(len(self.connected_at), reader, writers))
        self._links[task] = writers
        task.add_done_callback(self._on_served)
        self.cluster.changed()

    def _on_served(self, task: asyncio.Task[None]) -> None:
        _abort(self._links.pop(task))
        self.cluster.changed()
        if not task.cancelled():
            task.result()

    async def _serve(self, number: int, reader: asyncio.StreamReader, writers: list[asyncio.StreamWriter]) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection(*self.target, limit=1 << 20)
            writers.append(broker_writer)
            link = _Link(self, number, reader, writers[0], broker_reader, broker_writer)
            await _first(link.requests(), link.broker_frames(), link.answers())
        except (OSError, EOFError):
            pass  # one of the two ends it: the client, the broker; the test cancels
        except RuntimeError:
            if not any(each.transport.is_closing() for each in writers):
                raise  # uvloop raises it of a transport that was closed a moment ago, where asyncio drops the bytes


@dataclass(slots=True)
class _Link:
    """One client's connection and the one made for it."""

    node: NodeProxy
    number: int
    client_reader: asyncio.StreamReader
    client_writer: asyncio.StreamWriter
    broker_reader: asyncio.StreamReader
    broker_writer: asyncio.StreamWriter
    expected: asyncio.Queue[tuple[Request, Answer | None]] = field(default_factory=asyncio.Queue)
    frames: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)

    async def requests(self) -> None:
        cluster = self.node.cluster
        while True:
            frame = await _read_frame(self.client_reader)
            await cluster.is_open.wait()
            header, position = decode_request_header(frame)
            request = Request(
                self.node.node_id,
                header.api_key,
                header.api_version,
                header.correlation_id,
                frame,
                time.monotonic(),
                self.number,
                position,
            )
            answer = cluster.decide(request)
            if request.expects_answer:
                self.expected.put_nowait((request, answer))
            if answer is None or answer.forward:
                frame = request.frame  # which the rule may have replaced
                self.broker_writer.writelines((_SIZE.pack(len(frame)), frame))
                await self.broker_writer.drain()

    async def broker_frames(self) -> None:
        # Apart from `answers`, so that the end of the broker's connection is noticed whatever is waited for.
        while True:
            self.frames.put_nowait(await _read_frame(self.broker_reader))
            self.node.cluster.frames_from_broker += 1
            self.node.cluster.changed()

    async def answers(self) -> None:
        cluster = self.node.cluster
        while True:
            request, answer = await self.expected.get()
            frame = b""
            if answer is None or answer.forward:
                frame = cluster.rewrite(await self.frames.get())
                frame = _SIZE.pack(len(frame)) + frame
            if answer is not None and answer.hold is not None:
                await answer.hold.released.wait()
            if answer is not None and answer.replace is not None:
                frame = answer.replace(request, frame)
            await cluster.is_open.wait()
            if answer is None or not answer.lose:
                self.client_writer.write(frame)
                await self.client_writer.drain()
            cluster.answered += 1
            cluster.changed()
            if answer is not None and answer.cut:
                raise EOFError


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = _SIZE.unpack(await reader.readexactly(4))
    if not 0 <= size <= MAX_FRAME:
        raise EOFError(f"a frame of {size} bytes")
    return await reader.readexactly(size)


async def _first(*parts: Coroutine[Any, Any, None]) -> None:
    """Run all until the first one ends."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _abort(writers: Sequence[asyncio.StreamWriter]) -> None:
    for writer in writers:
        with contextlib.suppress(Exception):
            writer.transport.abort()


def decoded(request: Request, frame: bytes) -> Any:
    """The body of an answer's frame, its size in front."""
    return decode_response(request.api_key, request.version, frame[4:])[1]
