"""``OptionalParts``: the parts of a started producer that only an option asks for, and their places among the others.

Owns the limits of topics (``limits``), the circuits (``circuits``), and the chosen codecs (``codecs``). It
makes them, ends them with the runtime, and connects each to the events that it needs; ``linger_ms="auto"`` gets the
round trip from here. Imported if an option asks for one. Java has no counterpart.

Rule: a part that is not asked for is None, and the others are as if it did not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ..client.network_client import NetworkClient
from ..errors import DeliveryTimeoutError, KafkaError
from ..protocol.api import ApiKey
from .accumulator.record_accumulator import RecordAccumulator
from .deliveries.produce_request_result import ProduceRequestResult
from .intake.admission import Admission
from .metrics import SenderMetrics
from .options.auto import AUTO
from .producer_metadata import ProducerMetadata
from .sender.produce_requests import FIRST_PRODUCE_WITH_ZSTD

if TYPE_CHECKING:
    from .circuits.circuit_watch import CircuitWatch
    from .circuits.circuits import Circuits
    from .codecs.codec_sampler import CodecSampler
    from .config import ProducerConfig
    from .limits.limits_in_force import LimitsInForce
    from .sender.sender import Sender

__all__ = ["OptionalParts"]


class OptionalPartsRuntime(Protocol):
    """The parts of a started producer that these are added to."""

    config: ProducerConfig
    loop: asyncio.AbstractEventLoop
    client: NetworkClient
    metadata: ProducerMetadata
    accumulator: RecordAccumulator
    admission: Admission
    sender: Sender
    metrics: SenderMetrics


class OptionalParts:
    """The optional parts of one producer, added to the parts that each has."""

    def __init__(self, runtime: OptionalPartsRuntime) -> None:
        config, loop, accumulator = runtime.config, runtime.loop, runtime.accumulator
        in_flight_batches = runtime.sender.in_flight_batches
        self._client = runtime.client
        self._metadata = runtime.metadata
        self._admission = admission = runtime.admission
        self._loop = loop
        self._is_over = False
        self.limits: LimitsInForce | None = None
        self.circuits: Circuits | None = None
        self.codecs: CodecSampler | None = None
        self._circuit_watch: CircuitWatch | None = None
        if accumulator.auto_linger is not None:
            accumulator.auto_linger.round_trip = runtime.metrics.round_trip
        if config.topic_limits:
            from .limits.limits_in_force import LimitsInForce

            self.limits = LimitsInForce(config, self._client, self._metadata, accumulator, admission.topics, loop=loop)
            admission.on_use = self.limits.use
            in_flight_batches.on_refused = self.limits.refused
        if config.circuit_breaker is not None:
            from .circuits.circuit_watch import CircuitWatch

            watch = in_flight_batches.watch
            circuits = CircuitWatch(
                config.circuit_breaker, watch, loop.time, self._on_open_circuit,
                has_transactions=config.transactional_id is not None,
            )  # fmt: skip
            self._circuit_watch = in_flight_batches.watch = circuits
            self.circuits = circuits.circuits
            admission.on_refusal = partial(_tell_both, admission.on_refusal, circuits.refused)
        if config.chooses_codecs:
            from .codecs.codec_sampler import CodecSampler

            self.codecs = in_flight_batches.watch = CodecSampler(
                accumulator,
                in_flight_batches.watch,
                loop=loop,
                is_default=config.compression_type == AUTO,
                topics={topic: config.for_topic(topic).compression_type == AUTO for topic in config.topics},
                takes_zstd=self._takes_zstd,
            )
            in_flight_batches.on_codec_refused = self.codecs.refused

    def on_metadata_update(self) -> None:
        """Metadata has changed."""
        if self.limits is not None:
            self.limits.on_metadata_update()

    def overdue(self, results: Iterable[ProduceRequestResult]) -> None:
        """Single records of these batches are overdue."""
        if self._circuit_watch is not None:
            topics = {result.topic_partition[0] for result in results}
            self._circuit_watch.overdue(topics, DeliveryTimeoutError("the delivery_timeout_ms of a call was over"))

    def abort(self) -> None:
        """End everything now. May be called again."""
        self._is_over = True
        if self.limits is not None:
            self.limits.abort()
        if self.codecs is not None:
            self.codecs.abort()

    async def settled(self) -> None:
        """Return when its tasks have ended."""
        if self.limits is not None:
            await self.limits.settled()
        if self.codecs is not None:
            await self.codecs.settled()

    # callbacks of the parts

    def _takes_zstd(self) -> bool:
        """True when we are connected to brokers and all of them do."""
        nodes = self._client.nodes
        versions = [nodes.node_api_versions(node.node_id) for node in self._metadata.cluster.nodes]
        known = [each for each in versions if each is not None]
        return bool(known) and all(each.supports(ApiKey.PRODUCE, FIRST_PRODUCE_WITH_ZSTD) for each in known)

    def _on_open_circuit(self, topic: str | None) -> None:
        # Later: an answer is being handled, or this very queue is being walked.
        self._loop.call_soon(self._refuse_waiting, topic)

    def _refuse_waiting(self, topic: str | None) -> None:
        """The circuit of this topic, or of all, has opened: records that wait to be accepted need not wait."""
        circuits, now = self.circuits, self._loop.time()
        if circuits is not None and not self._is_over:
            self._admission.purge(
                lambda record: topic in (None, record.topic) and not circuits.lets_through(record.topic),
                lambda name: circuits.error_of(name, now),
            )


def _tell_both(
    first: Callable[[KafkaError], object], second: Callable[[KafkaError], object], error: KafkaError
) -> None:
    first(error)
    second(error)
