"""The targets of fuzzing: a ``Target`` makes valid inputs, takes any bytes at all, and says how much memory those may
cost.

``check`` is the whole judgement on one input. A target raises for each finding: an exception that is not the project's
own word for bad bytes, two forms of a kernel that disagree, a future that stays pending. The caller watches that an
input ends (pytest-timeout, or the alarm of ``python -m tests.fuzz``).

Rules: a target keeps nothing from one input to the next, so that each can be replayed alone; the bound on memory is a
constant and a multiple of the input's size, so that no small input is a bomb.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import random
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

from aiokafkapy import _form
from aiokafkapy.broker.handlers.dispatch_table import dispatch_table
from aiokafkapy.broker.network import request_handler
from aiokafkapy.broker.storage import replica_placer
from aiokafkapy.client.nodes.api_versions import NodeApiVersions, decode_api_versions_response, throttle_seconds
from aiokafkapy.client.nodes.client_request import ClientRequest
from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.cluster.metadata_answer import MetadataAnswer
from aiokafkapy.errors import CorruptMessageError, MalformedFrameError, UnsupportedForMessageFormatError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_response, encode_request, encode_response
from aiokafkapy.protocol.framing import FrameDecoder
from aiokafkapy.protocol.messages import build_request
from aiokafkapy.protocol.produce_response import decode_produce_response
from aiokafkapy.record.batch import iter_batches
from aiokafkapy.record.compression import Compression, compress, decompress
from tests.forms import plain_form

from ..unit.broker.socketless import SocketlessNode, socketless_node
from ..unit.client.fakes import ClientUnderTest, FakeCluster
from .calls import played
from .messages import EVERY_VERSION, TOPIC, batch, request, response
from .recordings import RECORDING_TARGETS
from .sasl import SASL_TARGETS
from .target import KIBIBYTE, MEBIBYTE, ExcessiveMemoryError, Target, check, opened
from .tls import TLS_TARGETS

__all__ = ["TARGETS", "ExcessiveMemoryError", "Requests", "Target", "check", "opened"]

BATCH_ERRORS: Final = (CorruptMessageError, UnsupportedForMessageFormatError)


class Frames(Target):
    """A stream cut into frames: the same frames, or the same refusal, however it comes in pieces."""

    name = "frames"
    most_bytes_per_byte = 10

    def valid(self, chance: random.Random) -> bytes:
        frames = [chance.randbytes(chance.choice((0, 1, 4, 30, 300))) for _ in range(chance.randrange(1, 5))]
        return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)

    def run(self, data: bytes) -> None:
        whole = self._read([data])
        step = 1 + len(data) % 7
        crumbs = [data[start : start + step] for start in range(0, len(data), step)]
        assert self._read(crumbs) == whole

    @staticmethod
    def _read(pieces: list[bytes]) -> tuple[int, bool]:
        decoder = FrameDecoder(MEBIBYTE)
        total = 0
        for piece in pieces:
            try:
                for frame in decoder.feed(piece):
                    total = hash((total, frame))
            except MalformedFrameError:
                return 0, True  # how many whole frames came before it depends on the pieces
            assert decoder.buffered_bytes <= MEBIBYTE + 4
        return total, False


class Responses(Target):
    """Responses of every API and version, decoded and, if the client acts on them, acted upon."""

    name = "responses"
    most_bytes_per_byte = 1_000
    """An entry of an array is an object of hundreds of bytes, and on the wire it may have one."""

    def valid(self, chance: random.Random) -> bytes:
        api_key, version = chance.choice(EVERY_VERSION)
        frame = encode_response(response(api_key, version, chance), 1)[4:]
        return bytes((api_key, version)) + frame

    def run(self, data: bytes) -> None:
        if len(data) < 2 or (data[0], data[1]) not in _VERSIONS:
            return
        api_key, version, frame = data[0], data[1], data[2:]
        try:
            if api_key == ApiKey.PRODUCE and version >= 3:
                decode_produce_response(version, frame)
            body: Any = (
                decode_api_versions_response(version, frame)
                if api_key == ApiKey.API_VERSIONS
                else decode_response(api_key, version, frame)[1]
            )
        except MalformedFrameError:
            return
        assert throttle_seconds(api_key, version, body) >= 0
        if api_key == ApiKey.API_VERSIONS:
            NodeApiVersions.from_response(body)
        elif api_key == ApiKey.METADATA and body.brokers:
            metadata = Metadata(retry_backoff_ms=100, retry_backoff_max_ms=1_000, metadata_max_age_ms=300_000)
            metadata.bootstrap([("host", 9092)])
            metadata.add_topics([TOPIC])
            wanted = metadata.new_request(0.0)
            metadata.update(wanted.request_version, MetadataAnswer(body), 0.0, is_partial=wanted.is_partial)
            for _ in range(2):  # its topics are known when it comes for the second time
                metadata.update(metadata.request_version, metadata.read_answer(version, frame), 0.0, is_partial=False)


class Client(Target):
    """Any bytes of a broker to a network client that has requests in flight: each of them ends, once."""

    name = "client"
    most_bytes = 4 * MEBIBYTE
    most_bytes_per_byte = 1_000
    _APIS: Final = (ApiKey.LIST_GROUPS, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER)
    _FIRST_CORRELATION_ID: Final = 3
    """The id of the first of those requests, on a connection where the client has asked for versions and metadata
    before.
    """

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        with asyncio.Runner() as self._runner:
            yield

    def valid(self, chance: random.Random) -> bytes:
        answers = []
        for number, api_key in enumerate(self._APIS):
            body = response(api_key, 0, chance)
            answers.append(encode_response(body, self._FIRST_CORRELATION_ID + number))
        return b"".join(answers[: chance.randrange(1, 4)])

    def run(self, data: bytes) -> None:
        self._runner.run(self._exchange(data))

    async def _exchange(self, data: bytes) -> None:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        cluster = FakeCluster((1, "one", 1))
        cluster.topics[TOPIC] = {0: 1}
        under_test = ClientUnderTest(cluster)
        under_test.loop.turns = 12  # thousands of inputs
        await under_test.connected(1)
        broker = cluster[1]
        requests = [ClientRequest(1, api_key, partial(build_request, api_key), max_version=0) for api_key in self._APIS]
        futures = [under_test.client.send(each, under_test.now) for each in requests]
        await under_test.loop.settle()
        (transport,) = {each.transport for each in broker.pending}
        assert broker.pending[0].header.correlation_id == self._FIRST_CORRELATION_ID, broker.pending[0].header
        half = len(data) // 2
        transport.receive(data[:half])
        transport.receive(data[half:])
        await under_test.loop.settle()
        transport.lose()  # which also ends a throttling that it may have asked for
        await under_test.loop.advance(2)  # the back-off
        under_test.client.ready(under_test.node(1), under_test.now)
        await under_test.loop.advance(2)
        assert under_test.client.ready(under_test.node(1), under_test.now), "the node can be used"
        await under_test.client.close()
        await under_test.loop.settle()
        assert all(future.done() for future in futures)
        for future in futures:
            future.result()
        assert under_test.loop.armed == []
        assert told == []


class Batches(Target):
    """Record batches as records and as columns, by both forms of each kernel, which must agree."""

    name = "batches"
    most_bytes = 12 * MEBIBYTE
    """Objects for 64 KiB of decompressed records, in four forms."""
    most_bytes_per_byte = 400
    _MOST_DECOMPRESSED: Final = 64 * KIBIBYTE

    def __init__(self) -> None:
        self._records, self._columns = _forms("aiokafkapy.record.builder"), _forms("aiokafkapy.record.record_columns")

    def valid(self, chance: random.Random) -> bytes:
        return b"".join(batch(chance) for _ in range(chance.randrange(1, 3)))

    def run(self, data: bytes) -> None:
        try:
            for found in iter_batches(data):
                self._read(found)
        except BATCH_ERRORS:
            pass

    def _read(self, found: Any) -> None:
        with contextlib.suppress(*BATCH_ERRORS):
            found.validate()
        with contextlib.suppress(*BATCH_ERRORS):
            if found.is_control:
                found.control_type()
        section = decompress(found.compression, found.records_section, self._MOST_DECOMPRESSED)
        place = (section, found.record_count, found.base_offset, found.base_timestamp)
        append_time = found.max_timestamp if found.has_append_time else None
        _agreed([_outcome(lambda form=form: list(form.decode_records(*place, append_time))) for form in self._records])
        outcomes = []
        for form in self._columns:
            columns = form.RecordColumns(True)
            outcomes.append(_outcome(lambda: columns.append(*place, append_time, 0)))  # noqa: B023
            outcomes[-1] = (outcomes[-1], _plain(columns.take()))
        _agreed(outcomes)


class Codecs(Target):
    """Compressed bytes: read as they say, or refused, and never more than the bound."""

    name = "codecs"
    most_bytes = 2 * MEBIBYTE
    most_bytes_per_byte = 20
    _MOST: Final = 256 * KIBIBYTE

    def valid(self, chance: random.Random) -> bytes:
        codec = chance.choice(list(Compression))
        size = chance.choice((0, 10, 1_000, 100_000, 2_000_000))
        return bytes((codec,)) + compress(codec, chance.choice((bytes(size), chance.randbytes(size % 3_000))))[:4_000]

    def run(self, data: bytes) -> None:
        if data:
            with contextlib.suppress(CorruptMessageError):
                assert len(decompress(data[0] % 8, data[1:], self._MOST)) <= self._MOST


class Requests(Target):
    """Requests to the dev broker, which has a topic with records: each is answered, or closes its connection."""

    name = "requests"
    most_bytes = 8 * MEBIBYTE
    most_bytes_per_byte = 1_500
    _PARTITIONS: Final = 100
    """The most that a request may add here; with the broker's own limit, ten thousand, each input could cost 10 MB."""

    def __init__(self) -> None:
        self._served = sorted(
            (handler.api_key, version)
            for handler in dispatch_table().values()
            for version in range(handler.min_version, handler.max_version + 1)
        )

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        with (
            asyncio.Runner() as self._runner,
            patch.object(request_handler, "logger") as self._logger,
            patch.object(replica_placer, "MAX_PARTITIONS_PER_REQUEST", self._PARTITIONS),
        ):
            yield

    def valid(self, chance: random.Random) -> bytes:
        body = request(*chance.choice(self._served), chance)
        return encode_request(body, 7, chance.choice((None, "me")))[4:]

    def run(self, data: bytes) -> None:
        self._runner.run(self._exchange(data))

    async def _exchange(self, data: bytes) -> None:
        async with socketless_node(group_min_session_timeout_ms=0) as node:
            node.state.topics.create(TOPIC, 2)
            records = [{"index": n, "records": batch(random.Random(n))} for n in range(2)]
            node.call(ApiKey.PRODUCE, 9, acks=1, timeout=10, topic_data=[{"name": TOPIC, "partition_data": records}])
            await self._judge(node, data)

    async def _judge(self, node: SocketlessNode, data: bytes) -> None:
        before = len(node.responses)
        self._logger.reset_mock()
        handled = node.handle(data)
        await asyncio.sleep(0)
        if self._logger.error.called:
            raise AssertionError("a handler failed") from self._logger.error.call_args.kwargs.get("exc_info")
        assert len(node.responses) - before == (0 if handled.parked else 1)
        answer = node.call(ApiKey.METADATA, 12, topics=[{"name": TOPIC}])
        assert answer.brokers, "others are served"


class Calls(Target):
    """The producer's public calls, with odd arguments and hostile hooks: none harms another record."""

    name = "calls"
    most_bytes = 64 * MEBIBYTE
    """A broker and a producer."""

    @contextlib.contextmanager
    def session(self) -> Iterator[None]:
        with asyncio.Runner() as self._runner:
            yield

    def valid(self, chance: random.Random) -> bytes:
        return chance.randbytes(8)

    def run(self, data: bytes) -> None:
        self._runner.run(played(data))


_ALL: Final[tuple[type[Target], ...]] = (
    Frames,
    Responses,
    Client,
    Batches,
    Codecs,
    Requests,
    Calls,
    *RECORDING_TARGETS,
    *SASL_TARGETS,
    *TLS_TARGETS,
)
TARGETS: Final[dict[str, type[Target]]] = {target.name: target for target in _ALL}
_VERSIONS: Final = frozenset(EVERY_VERSION)


def _forms(name: str) -> list[ModuleType]:
    plain = plain_form(name)
    return [importlib.import_module(name), plain] if _form.compiled else [plain]


def _outcome(read: Any) -> Any:
    try:
        return read()
    except CorruptMessageError as error:
        return str(error)


def _agreed(outcomes: list[Any]) -> None:
    assert all(outcome == outcomes[0] for outcome in outcomes), "the compiled form and the interpreted one disagree"


def _plain(read: Any) -> Any:
    if isinstance(read, tuple):
        return tuple(_plain(part) for part in read)
    return read if read is None or isinstance(read, int) else bytes(read)
