"""A fake runtime for intakes, without a network or a Sender."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from aiokafkapy.errors import KafkaError, ProducerNotStartedError
from aiokafkapy.producer.accumulator.record_accumulator import RecordAccumulator
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.deliveries.outcome_teller import OutcomeTeller
from aiokafkapy.producer.intake.admission import Admission
from aiokafkapy.producer.intake.overflow import Overflow
from aiokafkapy.producer.intake.partitioners import DefaultPartitioner
from aiokafkapy.producer.intake.record_intake import RecordIntake
from aiokafkapy.producer.metrics import CallMetrics, SenderMetrics
from aiokafkapy.producer.producer_metadata import ProducerMetadata
from tests.unit.metadata_options import PRODUCER_METADATA_OPTIONS

from .sender_fakes import cluster_of

__all__ = ["IntakeRuntime", "new_admission", "new_intake", "not_started"]


def new_admission(
    loop: asyncio.AbstractEventLoop,
    metadata: ProducerMetadata,
    accumulator: RecordAccumulator,
    config: ProducerConfig,
    *,
    max_block: float,
    partitioner: Any = None,
    overflow: Overflow | None = None,
) -> Admission:
    """An accumulator as a runtime makes it, with a teller, policies and counters of its own; told of the accumulator's
    room.
    """
    now = loop.time()
    admission = Admission(
        loop,
        metadata,
        accumulator,
        partitioner or DefaultPartitioner(),
        OutcomeTeller(loop),
        overflow or Overflow(config, accumulator, SenderMetrics(now)),
        max_block=max_block,
        calls=CallMetrics(now),
    )
    accumulator.on_room = admission.on_room
    return admission


class IntakeRuntime:
    """Bound to the running loop; its cluster has the topic ``orders``, with six partitions."""

    def __init__(self, partitioner: Any = None, **options: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.now = self.loop.time
        self.is_bound = True
        self.metadata = ProducerMetadata(**PRODUCER_METADATA_OPTIONS)
        self.metadata.cluster = cluster_of({"orders": [-1] * 6})
        self.metadata.add("orders", self.now())
        config = ProducerConfig(bootstrap_servers="h:1", **options)
        self.accumulator = RecordAccumulator(config)
        self.admission = new_admission(
            self.loop, self.metadata, self.accumulator, config, partitioner=partitioner, max_block=1.0
        )
        self.calls = self.admission.calls
        self.topics = self.admission.topics

    def learn(self, topics: dict[str, int]) -> None:
        """Metadata arrives: topics, with their numbers of partitions."""
        self.metadata.cluster = cluster_of({topic: [-1] * count for topic, count in topics.items()})
        self.admission.on_metadata_update()

    def end(self) -> None:
        """End it, as a runtime does at close."""
        self.is_bound = False
        self.admission.close(lambda topic: KafkaError(topic))

    def values(self, topic: str = "orders") -> list[bytes | None]:
        """The appended records, batch by batch."""
        batches = [batch for batch in self.accumulator.incomplete if batch.topic_partition.topic == topic]
        return [value for batch in batches for _, _, value, _ in batch.builder.records()]


def not_started() -> KafkaError:
    """The reason why an intake cannot be used, in these tests."""
    return ProducerNotStartedError("not started")


def new_intake(runtime: IntakeRuntime | None = None, **given: Any) -> RecordIntake:
    """An intake, bound to ``runtime`` where there is one."""
    intake = RecordIntake(
        given.get("key_serializer"), given.get("value_serializer"), given.get("partitioner", DefaultPartitioner()),
        not_started,
    )  # fmt: skip
    if runtime is not None:
        intake.bind(cast(Any, runtime))
    return intake
