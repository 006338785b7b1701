"""A broker that costs next to nothing: a transport in the place of the socket, and answers made beforehand.

A producer's CPU against it is the client's own, without the kernel and without a broker. ``NullBroker``
holds the topics and the answers, ``NullTransport`` parses each written request and gives the answer in the next turn of
the loop, as the earliest moment a socket could. Nothing is kept of the records.

``null_network(broker)`` puts it in the place of the client's ``Connector``; every producer started meanwhile gets it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from struct import Struct
from typing import Any, Final
from unittest import mock
from uuid import UUID, uuid5

from aiokafkapy.client import network_client
from aiokafkapy.client.nodes.connection_states import NodeConnectionState
from aiokafkapy.protocol.api import ApiKey, client_versions
from aiokafkapy.protocol.codec import decode_request, encode_response, unsigned_varint
from aiokafkapy.protocol.framing import FrameDecoder
from aiokafkapy.protocol.messages import build_response

__all__ = ["NullBroker", "NullTransport", "null_network"]

HOST: Final = "127.0.0.1"
PORT: Final = 9092
NODE_ID: Final = 1
CLUSTER_ID: Final = "null"
SPOKEN: Final = (ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID)
PRODUCE_VERSION: Final = 13
"""The only one whose requests are understood here; the broker offers no other."""

Buffer = bytes | bytearray | memoryview

_HEADER: Final = Struct(">ihhih")  # size, API, version, correlation id, length of the client id
_BEFORE_TOPICS: Final = 1 + 1 + 2 + 4  # tags of the header, no transactional id, acks, timeout
_ANSWER: Final = Struct(">iiB")  # size, correlation id, tags of the header
_PARTITION: Final = Struct(">ihqqq3s")  # number, error, base offset, append time, log start, nothing more to say
_LONE_ANSWER: Final = Struct(f">iiBB16sB{_PARTITION.size}sB5s")
_TOPIC_SIZE: Final = 1 + 16 + 1  # number of topics, id, number of partitions
_INDEX: Final = Struct(">i")
_NO_THROTTLE: Final = bytes(5)  # and no tags
_FRAME_LIMIT: Final = 100 * 1024 * 1024


class NullBroker:
    """One node that leads every partition. ``topics`` gives each topic's number of partitions; ``port`` is the one that
    it tells clients.

    ``requests`` and ``batches`` count the contents of Produce requests, so that a benchmark can report its workload.
    """

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.topics = dict(topics)
        self.port = PORT
        self.requests = 0
        self.batches = 0
        most = max(self.topics.values(), default=0)
        self._partition_answers = [_PARTITION.pack(number, 0, -1, -1, 0, b"\x01\x00\x00") for number in range(most)]

    def produce_answer(self, pieces: Sequence[Buffer]) -> bytes:
        """The whole answer to a Produce request that is written as ``pieces``."""
        _, _, _, correlation_id, client_id_length = _HEADER.unpack_from(pieces[0])
        self.requests += 1
        answers = self._partition_answers
        head, start = pieces[0], _HEADER.size + client_id_length + _BEFORE_TOPICS
        if head[start] == head[start + _TOPIC_SIZE - 1] == 2:  # one partition of one topic
            self.batches += 1
            number = _INDEX.unpack_from(head, start + _TOPIC_SIZE)[0]
            topic_id = head[start + 1 : start + _TOPIC_SIZE - 1]
            size = _LONE_ANSWER.size - 4
            return _LONE_ANSWER.pack(size, correlation_id, 0, 2, topic_id, 2, answers[number], 0, _NO_THROTTLE)
        walk = _Walk(pieces, start)
        count = walk.varint() - 1
        parts: list[Any] = [unsigned_varint(count + 1)]
        for _ in range(count):
            parts.append(walk.take(16))
            partitions = walk.varint() - 1
            parts.append(unsigned_varint(partitions + 1))
            self.batches += partitions
            for _ in range(partitions):
                parts.append(answers[walk.index()])
                walk.skip(walk.varint() - 1)
                walk.skip(1)
            parts.append(b"\0")
            walk.skip(1)
        body = b"".join((*parts, _NO_THROTTLE))
        return _ANSWER.pack(len(body) + 5, correlation_id, 0) + body

    def answer(self, frame: bytes) -> bytes:
        """The answer to any other request, given without its size."""
        header, body = decode_request(frame)
        fields = {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.INIT_PRODUCER_ID: self._producer_id,
        }[ApiKey(header.api_key)](body)
        return encode_response(build_response(header.api_key, header.api_version, **fields), header.correlation_id)

    def _api_versions(self, body: Any) -> dict[str, Any]:
        ranges = {api_key: client_versions(api_key) for api_key in SPOKEN} | {
            ApiKey.PRODUCE: (PRODUCE_VERSION, PRODUCE_VERSION)
        }
        return {
            "error_code": 0,
            "api_keys": [
                {"api_key": int(api_key), "min_version": low, "max_version": high}
                for api_key, (low, high) in ranges.items()
            ],
        }

    def _metadata(self, body: Any) -> dict[str, Any]:
        wanted = self.topics if body.topics is None else [str(topic.name) for topic in body.topics]
        return {
            "brokers": [{"node_id": NODE_ID, "host": HOST, "port": self.port}],
            "cluster_id": CLUSTER_ID,
            "controller_id": NODE_ID,
            "topics": [
                {
                    "error_code": 0,
                    "name": name,
                    "topic_id": _topic_id(name),
                    "partitions": [_partition(number) for number in range(self.topics[name])],
                }
                for name in wanted
            ],
        }

    def _producer_id(self, body: Any) -> dict[str, Any]:
        return {"error_code": 0, "producer_id": 1, "producer_epoch": 0}


class NullTransport(asyncio.Transport):
    """A connection to a ``NullBroker``: always writable, and answers come in the next turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol, broker: NullBroker) -> None:
        super().__init__()
        self._call_soon = loop.call_soon
        self._protocol = protocol
        self._broker = broker
        self._decoder = FrameDecoder(_FRAME_LIMIT)
        self._is_closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever buffered."""

    def write(self, data: Any) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Any) -> None:
        if _HEADER.unpack_from(list_of_data[0])[1] == ApiKey.PRODUCE:
            self._call_soon(self._protocol.data_received, self._broker.produce_answer(list_of_data))
            return
        # Two at once after 30 seconds of silence: the client asks for a sign of life first.
        for frame in self._decoder.feed(b"".join(list_of_data)):
            is_produce = int.from_bytes(frame[:2]) == ApiKey.PRODUCE
            sized = len(frame).to_bytes(4) + frame
            answer = self._broker.produce_answer([sized]) if is_produce else self._broker.answer(frame)
            self._call_soon(self._protocol.data_received, answer)

    def abort(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._call_soon(self._protocol.connection_lost, None)

    def close(self) -> None:
        self.abort()


@contextmanager
def null_network(broker: NullBroker) -> Iterator[None]:
    """Have every client that is made meanwhile talk to ``broker``."""
    with mock.patch.object(network_client, "Connector", partial(_NullConnector, broker)):
        yield


class _NullConnector:
    """Stands in for ``Connector``: opens no socket."""

    def __init__(self, broker: NullBroker, config: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop

    async def connect(
        self, state: NodeConnectionState, protocol_factory: Callable[[str], asyncio.Protocol], on_address_failure: Any
    ) -> None:
        state.set_addresses([(socket.AF_INET, (state.host, state.port))])
        state.next_address()
        protocol = protocol_factory(f"{state.host}:{state.port}")
        protocol.connection_made(NullTransport(self._loop, protocol, self._broker))


class _Walk:
    """Reads a request that lies in pieces; only records are ever split from the bytes around them."""

    def __init__(self, pieces: Sequence[Buffer], position: int) -> None:
        self._rest = iter(pieces)
        self._data = next(self._rest)
        self._position = position

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def index(self) -> int:
        self._position += 4
        return int(_INDEX.unpack_from(self._data, self._position - 4)[0])

    def take(self, size: int) -> Buffer:
        self._position += size
        return self._data[self._position - size : self._position]

    def skip(self, size: int) -> None:
        position = self._position + size
        while position >= len(self._data):
            position -= len(self._data)
            following = next(self._rest, None)
            if following is None:
                break
            self._data = following
        self._position = position


def _topic_id(name: str) -> UUID:
    return uuid5(UUID(int=1), name)


def _partition(number: int) -> dict[str, Any]:
    return {
        "error_code": 0,
        "partition_index": number,
        "leader_id": NODE_ID,
        "leader_epoch": 0,
        "replica_nodes": [NODE_ID],
        "isr_nodes": [NODE_ID],
        "offline_replicas": [],
    }
