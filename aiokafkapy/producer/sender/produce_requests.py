"""``ProduceRequests``: makes Produce requests of ready batches, and the batches' outcomes of the answers.

Owns the number of Produce requests of each node. The accumulator chooses the batches, ``in_flight_batches`` interprets
the answers, and the network client has the bytes. It reads the clock only when an answer comes. In Java this is the
half of ``Sender`` around ``sendProducerData``, ``sendProduceRequest`` and ``handleProduceResponse``.

Rules:

- One Produce request per node and round, with one batch of each ready partition.
- An answer counts only for a partition that was in its request.
- This runs once per request, and a lone awaited send pays for it alone: no mapping is made for one batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Final, TypeAlias

from ...client.nodes.client_request import ClientRequest, ClientResponse
from ...client.nodes.sender_client import SenderClient
from ...cluster.cluster import Cluster
from ...common import Buffer, TopicPartition
from ...errors import NetworkError, RequestTimedOutError, UnknownServerError
from ...protocol.api import ApiKey
from ...protocol.constants import FIRST_PRODUCE_WITH_TOPIC_IDS
from ...protocol.produce_request import encode_lone_produce_request, encode_produce_request
from ...protocol.produce_response import PartitionProduceResponse, ProduceResponse, decode_produce_response
from ...record.compression import Compression
from ...record.layout import BATCH_HEADER_SIZE
from ..accumulator.producer_batch import ProducerBatch
from ..accumulator.record_accumulator import RecordAccumulator
from ..identity.transaction import Transaction
from ..metrics import SenderMetrics
from ..options.auto import AUTO
from ..producer_metadata import ProducerMetadata
from .in_flight_batches import InFlightBatches
from .pipelining import Pipelining
from .produce_responses import answers_by_partition, leader_hints, no_answer

if TYPE_CHECKING:
    from ..config import ProducerConfig

__all__ = ["ProduceRequest", "ProduceRequests"]

FIRST_PRODUCE_WITH_ZSTD: Final = 7
LAST_PRODUCE_BEFORE_TRANSACTION_V2: Final = 11

_PRODUCE: Final = int(ApiKey.PRODUCE)
_NEVER: Final = math.inf

TopicBatches: TypeAlias = tuple[str, bytes | None, list[ProducerBatch]]
"""A topic, its id, and its batches in a request."""


class ProduceRequests:
    """The Produce requests of one producer. ``compress`` is called with each batch to be compressed in a thread,
    ``wakeup`` when a request is over.
    """

    __slots__ = (
        "_accumulator",
        "_acks",
        "_client",
        "_clock",
        "_compress",
        "_in_flight_batches",
        "_max_request_size",
        "_metadata",
        "_metrics",
        "_min_version",
        "_pipelining",
        "_request_timeout_ms",
        "_transaction",
        "_wakeup",
        "in_flight",
    )

    def __init__(
        self,
        config: ProducerConfig,
        client: SenderClient,
        metadata: ProducerMetadata,
        accumulator: RecordAccumulator,
        in_flight_batches: InFlightBatches,
        metrics: SenderMetrics,
        *,
        transaction: Transaction | None = None,
        clock: Callable[[], float],
        compress: Callable[[ProducerBatch], None],
        wakeup: Callable[[], None],
    ) -> None:
        self._client = client
        self._metadata = metadata
        self._accumulator = accumulator
        self._in_flight_batches = in_flight_batches
        self._metrics = metrics
        self._clock = clock
        self._compress = compress
        self._wakeup = wakeup
        # Options
        self._transaction = transaction
        self._acks = config.required_acks
        self._request_timeout_ms = config.request_timeout_ms
        self._max_request_size = config.max_request_size
        self._min_version = FIRST_PRODUCE_WITH_ZSTD if _may_use_zstd(config) else None
        # The limit of requests of each node, if that is not fixed
        self._pipelining: Pipelining | None = None
        if config.max_in_flight_requests_per_connection == AUTO:
            self._pipelining = Pipelining(config.most_in_flight)
        # Requests by node; a node without any has no entry
        self.in_flight: dict[int, int] = {}

    def send_ready(self, now: float) -> float:
        """Send ready batches to ready nodes; expire batches that are too old. Returns as ``Sender.run_once``."""
        accumulator = self._accumulator
        cluster = self._metadata.cluster
        result = accumulator.ready(cluster, now, self.in_flight)
        delay = result.next_ready_check_delay
        for batch in accumulator.take_compressions():
            self._compress(batch)
        if result.unknown_leader_topics:
            for topic in result.unknown_leader_topics:
                self._metadata.add(topic, now)
            self._metadata.request_update()
        ready_nodes = result.ready_nodes
        if ready_nodes:
            nodes: list[int] = []
            delay = min(delay, self._choose_nodes(cluster, ready_nodes, nodes, now))
            if nodes:
                drained = accumulator.drain(cluster, nodes, self._max_request_size, now)
                for node_id, batches in drained.items():
                    if batches:
                        self._send(cluster, node_id, batches, now)
                if accumulator.has_queued():
                    delay = 0.0  # more may be ready behind the drained batches
        self._in_flight_batches.expire(now)
        return min(delay, self._in_flight_batches.time_to_expiry(now))

    def in_flight_limits(self) -> dict[int, int]:
        """The limit of requests of each node, if that adapts; else empty."""
        return {} if self._pipelining is None else self._pipelining.limits()

    def handle_response(self, sent: ProduceRequest, response: ClientResponse) -> None:
        """A request is over, with an answer or without one."""
        now = response.completed_at
        if now < 0:
            now = self._clock()
        node_id = sent.node_id
        count = self.in_flight.pop(node_id) - 1
        if count:
            self.in_flight[node_id] = count
        batches = sent.batches
        body: ProduceResponse | None = response.body
        if self._pipelining is not None:
            self._learn(self._pipelining, sent, response, body, now)
        watch = self._in_flight_batches.watch
        if watch is not None:
            watch.answered(node_id, 0.0 if body is None else body.throttle_time_ms / 1000)
        if body is None:
            answers = _without_body(response, batches)
            self._in_flight_batches.handle_answers(batches, answers, now, response.was_sent)
        else:
            self._metrics.record_response(response.latency, body.throttle_time_ms, now)
            if sent.all_is_well(body.partitions):
                self._in_flight_batches.over(batches)
                for index, answer in enumerate(body.partitions):
                    self._in_flight_batches.handle_answer(batches[index], answer, now, True)
            else:
                self._handle_by_partition(sent, body, now)
        self._wakeup()

    # internals

    def _choose_nodes(self, cluster: Cluster, ready_nodes: Set[int], nodes: list[int], now: float) -> float:
        """Add to ``nodes`` those that can take a request now; returns the seconds until another may be tried."""
        delay = _NEVER
        for node_id in ready_nodes:
            node = cluster.node_by_id(node_id)
            if node is None:
                continue
            is_ready = self._client.ready(node, now)
            if is_ready and self._pipelining is not None:
                is_ready = self.in_flight.get(node_id, 0) < self._pipelining.limit(node_id)
            self._accumulator.update_node_latency_stats(node_id, now, is_ready)
            if is_ready:
                nodes.append(node_id)
            else:
                delay = min(delay, self._client.connection_delay(node, now))
        return delay

    def _send(self, cluster: Cluster, node_id: int, batches: list[ProducerBatch], now: float) -> None:
        records = 0
        topics = self._metrics.topics
        for batch in batches:
            records += batch.record_count
            uncompressed = BATCH_HEADER_SIZE + batch.builder.records_size
            self._metrics.record_batch(batch.record_count, batch.builder.size, uncompressed, now - batch.created, now)
            if topics is not None:
                topics.sent(batch.topic_partition.topic, batch.record_count, batch.builder.size, uncompressed, now)
        request = self._new_request(cluster, node_id, batches)
        self._in_flight_batches.add(batches)
        self.in_flight[node_id] = self.in_flight.get(node_id, 0) + 1
        if self._pipelining is not None:
            request.depth = self.in_flight[node_id]
            request.size = sum(batch.builder.size for batch in batches)
        self._metrics.record_request(records, now)
        self._client.post(request, now)

    def _new_request(self, cluster: Cluster, node_id: int, batches: list[ProducerBatch]) -> ProduceRequest:
        request = ProduceRequest.__new__(ProduceRequest)  # without the constructor: keywords would double the cost
        request.node_id = node_id
        request.api_key = _PRODUCE
        request.build = request.encode = request.decode = request.callback = request.timeout = None
        request.expects_response = self._acks != 0
        request.min_version = self._min_version
        request.max_version = None
        request.requests = self
        request.batches = batches
        request.topic = batches[0].topic_partition.topic
        request.topic_id = cluster.topic_id(request.topic)
        request.topics = None if len(batches) == 1 else _by_topic(cluster, batches)
        if request.topic_id is None or (
            request.topics is not None and any(topic_id is None for _, topic_id, _ in request.topics)
        ):
            # Some brokers offer Produce 13 beside a Metadata without ids (Event Hubs).
            request.max_version = FIRST_PRODUCE_WITH_TOPIC_IDS - 1
        request.transactional_id = None
        if self._transaction is not None:
            request.transactional_id = self._transaction.transactional_id
            if self._transaction.version < 2:
                request.max_version = LAST_PRODUCE_BEFORE_TRANSACTION_V2
        request.acks = self._acks
        request.timeout_ms = self._request_timeout_ms
        return request

    def _learn(
        self,
        pipelining: Pipelining,
        sent: ProduceRequest,
        response: ClientResponse,
        body: ProduceResponse | None,
        now: float,
    ) -> None:
        if body is None:
            if response.was_sent:
                pipelining.lost(sent.node_id, now)
        elif body.throttle_time_ms > 0:
            pipelining.throttled(sent.node_id, now)
        else:
            pipelining.answered(sent.node_id, sent.depth, sent.size, response.latency, now)

    def _handle_by_partition(self, sent: ProduceRequest, body: ProduceResponse, now: float) -> None:
        """Handle the answers of a response, in any order; some may be errors."""
        asked = sent.by_topic()
        answers = answers_by_partition(body.partitions, {topic_id: topic for topic, topic_id, _ in asked})
        # Not for a topic that was recreated meanwhile: its leaders' epochs count from 0 again, and would never be
        # newer.
        cluster = self._metadata.cluster
        current = {topic for topic, topic_id, _ in asked if topic_id == cluster.topic_id(topic)}
        hints = {tp: hint for tp, hint in leader_hints(answers).items() if tp.topic in current}
        if hints:
            # Before the batches: a retry then goes to the new leader at once (KIP-951).
            self._metadata.update_partition_leaderships(hints, body.node_endpoints)
        self._in_flight_batches.handle_answers(sent.batches, answers, now, True)


class ProduceRequest(ClientRequest):
    """One Produce request: it encodes its batches, and matches the answers with them.

    ``topic`` and ``topic_id`` are those of its first batch; ``topics`` has all, unless that is the only one. ``depth``,
    its number among those in flight when it was sent, and ``size``, the bytes of its batches, are for ``Pipelining``.
    """

    __slots__ = (
        "acks",
        "batches",
        "depth",
        "requests",
        "size",
        "timeout_ms",
        "topic",
        "topic_id",
        "topics",
        "transactional_id",
    )

    requests: ProduceRequests
    batches: list[ProducerBatch]
    topic: str
    topic_id: bytes | None
    topics: list[TopicBatches] | None
    transactional_id: str | None
    acks: int
    timeout_ms: int
    depth: int
    size: int

    def frame(self, version: int, correlation_id: int, client_id: str) -> Sequence[Buffer]:
        """The pieces of the request's frame. They are not kept here: small batches are copied into them."""
        if len(self.batches) == 1:
            batch = self.batches[0]
            return encode_lone_produce_request(
                version, correlation_id, client_id, self.transactional_id, self.acks, self.timeout_ms,
                self.topic, self.topic_id, batch.topic_partition.partition, batch.buffers(),
            )  # fmt: skip
        topics = [
            (topic, topic_id, [_number_and_bytes(batch) for batch in batches])
            for topic, topic_id, batches in self.by_topic()
        ]
        return encode_produce_request(
            version, correlation_id, client_id, self.transactional_id, self.acks, self.timeout_ms, topics
        )

    def read(self, version: int, frame: bytes) -> ProduceResponse:
        """The answers."""
        return decode_produce_response(version, frame, self.topic_id)

    def hand_out(self, response: ClientResponse) -> None:
        """The request is over."""
        self.requests.handle_response(self, response)

    def by_topic(self) -> list[TopicBatches]:
        """The topics, in the order in which they come."""
        return [(self.topic, self.topic_id, self.batches)] if self.topics is None else self.topics

    def all_is_well(self, answers: list[PartitionProduceResponse]) -> bool:
        """True if these are the answers to the batches of one topic, in their order, without errors."""
        if self.topics is not None or len(answers) != len(self.batches):
            return False
        for index, answer in enumerate(answers):
            batch = self.batches[index]
            if answer.error_code or answer.partition != batch.topic_partition.partition:
                return False
            if answer.topic is not None:
                if answer.topic != self.topic:
                    return False
            elif self.topic_id is None or answer.topic_id != self.topic_id:
                return False
        return True


def _may_use_zstd(config: ProducerConfig) -> bool:
    return Compression.ZSTD in (config.compression, *(config.for_topic(topic).compression for topic in config.topics))


def _by_topic(cluster: Cluster, batches: list[ProducerBatch]) -> list[TopicBatches] | None:
    """The batches of each topic, in the order in which the topics come; None if all are of one topic."""
    found: dict[str, list[ProducerBatch]] = {}
    for batch in batches:
        found.setdefault(batch.topic_partition.topic, []).append(batch)
    if len(found) == 1:
        return None
    return [(topic, cluster.topic_id(topic), of_topic) for topic, of_topic in found.items()]


def _number_and_bytes(batch: ProducerBatch) -> tuple[int, tuple[Buffer, ...]]:
    return batch.topic_partition.partition, batch.buffers()


def _without_body(
    response: ClientResponse, batches: Sequence[ProducerBatch]
) -> dict[TopicPartition, PartitionProduceResponse]:
    """The substitutes for missing answers: success with acks=0, else the error."""
    error = response.error
    message = str(error) if error is not None else None
    if response.timed_out:
        code = RequestTimedOutError.code
    elif response.disconnected or (error is not None and error.code is None and error.retriable):
        code = NetworkError.code
    elif error is not None:
        code = error.code or UnknownServerError.code
    else:
        code = 0
    return {batch.topic_partition: no_answer(batch.topic_partition, code or 0, message) for batch in batches}
