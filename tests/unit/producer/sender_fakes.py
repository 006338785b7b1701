"""Fakes of the network client and the loop, for tests of the Sender and of admission."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiokafkapy.client.nodes.client_request import ClientRequest, ClientResponse
from aiokafkapy.client.nodes.sender_client import SenderClient
from aiokafkapy.cluster.cluster import Cluster, TopicMetadata
from aiokafkapy.cluster.metadata_cache import MetadataCache
from aiokafkapy.common import Node, PartitionInfo, TopicPartition
from aiokafkapy.errors import KafkaError
from aiokafkapy.producer.accumulator.record_accumulator import RecordAccumulator
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.identity.transaction_manager import TransactionManager
from aiokafkapy.producer.metrics import SenderMetrics
from aiokafkapy.producer.producer_metadata import ProducerMetadata
from aiokafkapy.producer.sender.produce_requests import ProduceRequest
from aiokafkapy.producer.sender.sender import Sender
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.messages import build_response
from aiokafkapy.protocol.produce_response import PartitionProduceResponse, ProduceResponse
from aiokafkapy.testing.clock import VirtualClock
from tests.unit.metadata_options import PRODUCER_METADATA_OPTIONS

NODES = [Node(1, "one", 9092), Node(2, "two", 9092)]


def cluster_of(leaders: Mapping[str, Sequence[int]]) -> Cluster:
    """A cluster of two nodes; for each topic the leader of each partition."""
    topics = {
        name: TopicMetadata(name, [PartitionInfo(name, number, leader, 1) for number, leader in enumerate(of_topic)])
        for name, of_topic in leaders.items()
    }
    return Cluster(NODES, topics)


class VirtualLoop:
    """Timers and callbacks on a virtual clock; ``run`` calls those that are due."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._timers: list[tuple[float, int, Any]] = []
        self._number = 0

    def time(self) -> float:
        return self.clock.time()

    def get_debug(self) -> bool:
        return False

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> Any:
        return self._schedule(when, callback, args)

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> Any:
        return self._schedule(self.clock.time(), callback, args)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def run_until(self, when: float) -> None:
        """Let time pass, and everything happen that falls due."""
        while self._timers and self._timers[0][0] <= when:
            due, _, handle = heapq.heappop(self._timers)
            self.clock.advance_to(max(due, self.clock.time()))
            if not handle.is_cancelled:
                handle.callback(*handle.args)
        self.clock.advance_to(when)

    def run(self) -> None:
        """Run the callbacks that are due now."""
        self.run_until(self.clock.time())

    @property
    def pending_timers(self) -> int:
        return sum(not handle.is_cancelled for _, _, handle in self._timers)

    def _schedule(self, when: float, callback: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        self._number += 1
        handle = Handle(when, callback, args)
        heapq.heappush(self._timers, (when, self._number, handle))
        return handle


class Handle:
    """The handle of a timer or callback."""

    def __init__(self, when: float, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._when = when
        self.callback = callback
        self.args = args
        self.is_cancelled = False

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeClient(SenderClient):
    """A network client whose requests the test answers."""

    is_active = True

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[ClientRequest] = []
        self.not_ready: set[int] = set()
        self.connection_delays: dict[int, float] = {}

    def ready(self, node: Node, now: float) -> bool:
        return node.node_id not in self.not_ready

    def post(self, request: ClientRequest, now: float) -> None:
        self.sent.append(request)

    def least_loaded_node(self, now: float) -> Node | None:
        return next((node for node in NODES if node.node_id not in self.not_ready), None)

    def connection_delay(self, node: Node, now: float) -> float:
        return self.connection_delays.get(node.node_id, float("inf"))


class SenderHarness:
    """A Sender with everything around it but the network, on a virtual clock."""

    def __init__(self, leaders: dict[str, Sequence[int]] | None = None, **options: Any) -> None:
        self.clock = VirtualClock()
        self.loop = VirtualLoop(self.clock)
        self.config = ProducerConfig(bootstrap_servers="h:1", **({"linger_ms": 0} | options))
        self.metadata = ProducerMetadata(**PRODUCER_METADATA_OPTIONS)
        self.metadata.bootstrap([("h", 1)])
        self.set_leaders(leaders or {"t": [1, 1]})
        self.metadata.need_full_update = False
        self.manager = TransactionManager(self.config.retry_backoff) if self.config.enable_idempotence else None
        self.accumulator = RecordAccumulator(self.config, self.manager)
        self.client = FakeClient()
        self.crashes: list[BaseException] = []
        self.metrics = SenderMetrics(self.now)
        self.sender = Sender(
            self.config, self.client, self.metadata, self.accumulator, self.manager, self.metrics,
            loop=self.loop, on_crash=self.crashes.append,  # type: ignore[arg-type]
        )  # fmt: skip
        if self.manager is not None:
            self.give_producer_id()

    @property
    def now(self) -> float:
        return self.clock.time()

    def set_leaders(self, leaders: dict[str, Sequence[int]]) -> None:
        nodes = {node.node_id: node for node in NODES}
        self.metadata._replace_cache(MetadataCache(nodes=nodes, topics=dict(cluster_of(leaders).topics)))

    def give_producer_id(self, producer_id: int = 7, epoch: int = 0) -> None:
        self.run()
        (request,) = [request for request in self.take() if request.api_key == ApiKey.INIT_PRODUCER_ID]
        body = build_response(ApiKey.INIT_PRODUCER_ID, 4, error_code=0, producer_id=producer_id, producer_epoch=epoch)
        self.respond(request, body)

    def append(self, value: bytes = b"x", partition: int = 0, topic: str = "t", key: bytes | None = None) -> Any:
        delivery = self.accumulator.appender.append(
            topic, partition, 1, key, value, None, self.now, self.metadata.cluster
        )
        assert delivery is not None
        return delivery

    def run(self) -> float:
        """One run of the Sender, as often as it asks for."""
        delay = self.sender.run_once(self.now)
        for _ in range(50):
            if delay > 0:
                return delay
            before = len(self.client.sent)
            delay = self.sender.run_once(self.now)
            if len(self.client.sent) == before and delay <= 0:
                return delay
        return delay

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.run()

    def take(self) -> list[ClientRequest]:
        """The requests sent since the last time."""
        sent, self.client.sent = self.client.sent, []
        return sent

    def send(self) -> ClientRequest:
        """Run, and expect exactly one Produce request."""
        self.run()
        (request,) = self.take()
        assert request.api_key == ApiKey.PRODUCE
        return request

    def prime(self, *partitions: int) -> None:
        """Have the first batch of these partitions of ``t`` (0 if none is named), of one record, acknowledged.

        An idempotent producer has several in flight in a partition only from then on.
        """
        deliveries = [self.append(b"first", partition) for partition in partitions or (0,)]
        linger_ms = self.config.linger_ms
        self.advance((linger_ms if isinstance(linger_ms, int) else 0) / 1000)
        for request in self.take():
            self.answer(request, base_offset=0)
        assert [delivery.result().offset for delivery in deliveries] == [0] * len(deliveries)

    def respond(
        self,
        request: ClientRequest,
        body: Any = None,
        *,
        disconnected: bool = False,
        timed_out: bool = False,
        error: KafkaError | None = None,
        was_sent: bool = True,
        latency: float = 0.0,
    ) -> None:
        request.hand_out(
            ClientResponse(
                request, 9, body, disconnected=disconnected, timed_out=timed_out, error=error, was_sent=was_sent,
                latency=latency,
            )
        )  # fmt: skip

    def answer(self, request: ClientRequest, code: int = 0, *, latency: float = 0.0, **fields: Any) -> None:
        """Answer every partition of a Produce request alike."""
        places = [batch.topic_partition for batch in batches_of(request)]
        body = response({place: answer_of(place, code, **fields) for place in places})
        self.respond(request, body, latency=latency)


def batches_of(request: ClientRequest) -> list[Any]:
    """The batches of a Produce request."""
    assert isinstance(request, ProduceRequest)
    return request.batches


def answer_of(place: TopicPartition, code: int = 0, **fields: Any) -> PartitionProduceResponse:
    """A partition's part of a Produce response."""
    plain: dict[str, Any] = {
        "topic": place.topic,
        "topic_id": None,
        "partition": place.partition,
        "error_code": code,
        "base_offset": 0 if code == 0 else -1,
        "log_append_time_ms": -1,
        "log_start_offset": -1,
    }
    return PartitionProduceResponse(**(plain | fields))


def response(answers: dict[TopicPartition, PartitionProduceResponse]) -> ProduceResponse:
    """A Produce response."""
    return ProduceResponse(1, 0, list(answers.values()), ())
