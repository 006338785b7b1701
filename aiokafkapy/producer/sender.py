# cython: annotation_typing=False
"""``Sender``: the one task that turns ready batches into Produce requests.

Owns the task, its sleep, the requests it makes, and the threads that compress. What to send is the accumulator's to
say, what an answer means ``in_flight_batches``'; bytes are the network client's. Kafka's counterpart has this name.

Rules:

* ``run_once(now)`` does all that can be done at ``now`` and returns the seconds until there is more to do by the clock;
  whatever else may change that calls ``wakeup``. So the task sleeps whenever there is nothing to do.
* One Produce request per node and round, with one batch of each ready partition.
* No bad answer ends the task. If it must end, by a bug or because it was cancelled, ``on_crash`` is told the cause, and
  fails all that is pending.

Events: ``sender.crashed`` (error; error), ``producer_id.bumped`` (info; epoch).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Any, Final
from uuid import UUID

from ..client.client_request import ClientRequest, ClientResponse
from ..common import TopicPartition
from ..errors import NetworkError, RequestTimedOutError, UnknownServerError
from ..observability import get_logger
from ..protocol.api import ApiKey
from ..protocol.produce import PartitionProduceResponse, decode_produce_response, encode_produce_request
from ..record.builder import BATCH_HEADER_SIZE
from ..record.compression import Compression
from .config import ProducerConfig
from .in_flight_batches import InFlightBatches
from .metrics import SenderMetrics
from .produce_responses import answers_by_partition, leader_hints, no_answer
from .producer_batch import ProducerBatch
from .producer_id import ProducerIdRequests, SenderClient
from .producer_metadata import ProducerMetadata
from .record_accumulator import RecordAccumulator
from .transaction_manager import TransactionManager

__all__ = ["Sender"]

FIRST_PRODUCE_WITH_ZSTD: Final = 7
FIRST_PRODUCE_WITH_TOPIC_IDS: Final = 13
COMPRESSION_THREADS: Final = 2
NEVER: Final = math.inf

_logger = get_logger(__name__)


class Sender:
    """The background task of one producer. ``on_crash`` is told what ended it, unless it was stopped."""

    def __init__(
        self,
        config: ProducerConfig,
        client: SenderClient,
        metadata: ProducerMetadata,
        accumulator: RecordAccumulator,
        transaction_manager: TransactionManager | None,
        metrics: SenderMetrics,
        *,
        loop: asyncio.AbstractEventLoop,
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._config = config
        self._client = client
        self._metadata = metadata
        self._accumulator = accumulator
        self._transaction_manager = transaction_manager
        self._metrics = metrics
        self._loop = loop
        self._on_crash = on_crash
        # Requests
        self.in_flight_batches = InFlightBatches(config, metadata, accumulator, transaction_manager, metrics)
        self.in_flight_requests: dict[int, int] = {}
        self._acks = config.required_acks
        self._min_version = FIRST_PRODUCE_WITH_ZSTD if config.compression is Compression.ZSTD else None
        self._producer_id_requests: ProducerIdRequests | None = None
        if transaction_manager is not None:
            self._producer_id_requests = ProducerIdRequests(
                client, metadata, accumulator, transaction_manager, clock=loop.time, wakeup=self.wakeup
            )
        # The task
        self._is_stopped = False
        self._is_woken = False
        self._woken_at = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._due = NEVER
        self._executor: Executor | None = None

    # --- the task ---

    async def run(self) -> None:
        """The task's body: until ``stop()``. Being cancelled counts as a crash."""
        try:
            while not self._is_stopped:
                self._is_woken = False
                delay = self.run_once(self._loop.time())
                if delay > 0 and not self._is_woken:
                    await self._sleep(delay)
                else:
                    await asyncio.sleep(0)
        except BaseException as cause:
            if self._is_stopped:
                return
            if not isinstance(cause, asyncio.CancelledError):
                _logger.error("sender.crashed", error=repr(cause), exc_info=cause)
            self._on_crash(cause)
            raise
        finally:
            self._release()

    def wakeup(self) -> None:
        """There may be something to do: run soon. Cheap; to be called on the loop."""
        if self._is_woken:
            return
        self._is_woken = True
        self._woken_at = self._loop.time()
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def stop(self) -> None:
        """End the task soon, without failing anything."""
        self._is_stopped = True
        self._is_woken = False
        self.wakeup()

    def run_once(self, now: float) -> float:
        """Do what can be done now; returns the seconds until the clock gives more to do (infinity: nothing will)."""
        self._metrics.wake_ups += 1
        manager = self._transaction_manager
        delay = NEVER
        if manager is not None and manager.needs_attention:
            delay = self._tend_identity(manager, now)  # first: a bumped epoch lets batches go
        return min(delay, self.send_producer_data(now))

    def _tend_identity(self, manager: TransactionManager, now: float) -> float:
        """Settle sequences, bump the epoch, ask for a producer id: whichever is due. Returns as ``run_once``."""
        manager.maybe_resolve_sequences(self.in_flight_batches.is_on_the_wire)
        if manager.bump_epoch_if_needed(self.in_flight_batches.is_on_the_wire):
            self._metrics.epoch_bumps += 1
            _logger.info("producer_id.bumped", epoch=manager.producer_id_and_epoch.epoch)
        return NEVER if self._producer_id_requests is None else self._producer_id_requests.maybe_send(now)

    # --- Produce requests ---

    def send_producer_data(self, now: float) -> float:
        """Send what is ready to the nodes that are; expire what is too old. Returns as ``run_once``."""
        accumulator = self._accumulator
        cluster = self._metadata.cluster
        result = accumulator.ready(cluster, now, self._in_flight_count)
        for batch in accumulator.take_compressions():
            self._start_compression(batch)
        if result.unknown_leader_topics:
            for topic in result.unknown_leader_topics:
                self._metadata.add(topic, now)
            self._metadata.request_update()
        nodes, delay = self._ready_nodes(result.ready_nodes, now)
        if nodes:
            drained = accumulator.drain(cluster, nodes, self._config.max_request_size, now)
            for node_id, batches in drained.items():
                if batches:
                    self._send_produce_request(node_id, batches, now)
            if accumulator.has_undrained:
                delay = 0.0  # more may be ready behind what was drained
        self.in_flight_batches.expire(now)
        return min(delay, result.next_ready_check_delay, self.in_flight_batches.time_to_expiry(now))

    def _in_flight_count(self, node_id: int) -> int:
        return self.in_flight_requests.get(node_id, 0)

    def _ready_nodes(self, node_ids: set[int], now: float) -> tuple[list[int], float]:
        """Those that can be sent a request now, and the seconds until the clock lets another one be tried."""
        nodes: list[int] = []
        delay = NEVER
        for node_id in node_ids:
            node = self._metadata.cluster.node_by_id(node_id)
            if node is None:
                continue
            is_ready = self._client.ready(node, now)
            self._accumulator.update_node_latency_stats(node_id, now, is_ready)
            if is_ready:
                nodes.append(node_id)
            else:
                delay = min(delay, self._client.connection_delay(node, now))
        return nodes, delay

    def _send_produce_request(self, node_id: int, batches: list[ProducerBatch], now: float) -> None:
        by_topic: dict[str, list[tuple[int, Sequence[Any]]]] = {}
        records = 0
        for batch in batches:
            topic, partition_number = batch.topic_partition
            by_topic.setdefault(topic, []).append((partition_number, batch.buffers()))
            records += batch.record_count
            uncompressed = BATCH_HEADER_SIZE + batch.builder.records_size
            self._metrics.record_batch(batch.record_count, batch.size, uncompressed, now - batch.created, now)
        cluster = self._metadata.cluster
        topics = [(topic, cluster.topic_id(topic), partitions) for topic, partitions in by_topic.items()]
        names = {topic_id: topic for topic, topic_id, _ in topics}
        request = ClientRequest(
            node_id,
            ApiKey.PRODUCE,
            expects_response=self._acks != 0,
            min_version=self._min_version,
            # Some brokers offer Produce 13 beside a Metadata without ids (Event Hubs).
            max_version=FIRST_PRODUCE_WITH_TOPIC_IDS - 1 if None in names else None,
            encode=partial(_encode, self._acks, self._config.request_timeout_ms, topics),
            decode=decode_produce_response,
            callback=partial(self._handle_produce_response, batches, names),
        )
        self.in_flight_batches.add(batches)
        self.in_flight_requests[node_id] = self._in_flight_count(node_id) + 1
        self._metrics.record_request(records, now)
        self._client.post(request, now)

    def _handle_produce_response(
        self, batches: list[ProducerBatch], topic_names: dict[UUID | None, str], response: ClientResponse
    ) -> None:
        now = self._loop.time()
        node_id = response.request.node_id
        count = self.in_flight_requests.pop(node_id) - 1
        if count:
            self.in_flight_requests[node_id] = count
        body = response.body
        if body is not None:
            self._metrics.record_response(response.latency, body.throttle_time_ms, now)
            answers = answers_by_partition(body.partitions, topic_names)
            hints = leader_hints(answers)
            if hints:
                # Before the batches: a retry then goes to the new leader at once (KIP-951).
                self._metadata.update_partition_leaderships(hints, body.node_endpoints)
        else:
            answers = _without_body(response, batches)
        self.in_flight_batches.handle_answers(batches, answers, now, was_sent=response.was_sent)
        self.wakeup()

    # --- compression in threads ---

    def _start_compression(self, batch: ProducerBatch) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(COMPRESSION_THREADS, thread_name_prefix="aiokafkapy-compress")
        future = self._loop.run_in_executor(self._executor, batch.compress)
        future.add_done_callback(partial(self._on_compressed, batch))

    # --- asyncio callbacks ---

    def _on_compressed(self, batch: ProducerBatch, future: asyncio.Future[None]) -> None:
        error = None if future.cancelled() else future.exception()
        now = self._loop.time()
        if error is not None:
            self.in_flight_batches.fail(batch, error, now)
        self._accumulator.compressed(batch, now)

    def _on_timer(self) -> None:
        self._timer = None
        if self._due <= self._loop.time():
            self.wakeup()
        elif self._due < NEVER:
            self._timer = self._loop.call_at(self._due, self._on_timer)
            self._timer_at = self._due

    # --- internals ---

    async def _sleep(self, delay: float) -> None:
        """Until woken, or for ``delay`` seconds. A timer that is early is left alone: it sets itself again."""
        self._due = self._loop.time() + delay
        timer = self._timer
        if timer is not None and self._timer_at > self._due:
            timer.cancel()
            timer = None
        if timer is None and delay < NEVER:
            self._timer = self._loop.call_at(self._due, self._on_timer)
            # Not timer.when(): below a millisecond uvloop gives a Handle, which has no such thing.
            self._timer_at = self._due
        waiter = self._waiter = self._loop.create_future()
        try:
            await waiter
        finally:
            self._waiter = None
        now = self._loop.time()
        self._metrics.record_wake_up(now - self._woken_at, now)

    def _release(self) -> None:
        """Leave nothing behind."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None


def _encode(
    acks: int,
    timeout_ms: int,
    topics: Sequence[tuple[str, UUID | None, Sequence[tuple[int, Sequence[Any]]]]],
    version: int,
    correlation_id: int,
    client_id: str,
) -> list[bytes | memoryview]:
    return encode_produce_request(version, correlation_id, client_id, None, acks, timeout_ms, topics)


def _without_body(
    response: ClientResponse, batches: Sequence[ProducerBatch]
) -> dict[TopicPartition, PartitionProduceResponse]:
    """What stands for the answers when there are none: success with acks=0, else what went wrong."""
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
