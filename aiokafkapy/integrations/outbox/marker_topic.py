"""``MarkerTopic``: makes the compacted topic of the markers if it is missing, and reads it to its end.

Owns its readers for the time of one look. ``markers`` has the content of a marker.

Rules: ``find`` returns markers that were committed before it was called. It reads committed records up to the end of
the log, and so waits for transactions that are just being committed there, also of other shards; not much longer than
such a transaction can be open. A topic that deletes records after a time is refused: its relay would publish twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TypeVar
from uuid import UUID

from ...admin.marker_topics import SECONDS_TO_ABORT, create_marker_topic, unfit_policy
from ...admin.topics import TopicAdmin, TopicDescription
from ...client.config import ClientConfig
from ...common import TopicPartition
from ...errors import ConfigurationError, KafkaTimeoutError, TopicAuthorizationFailedError
from ...producer.config import ProducerConfig
from ...reader.config import ReaderConfig
from ...reader.partition_reader import PartitionReader
from .markers import decode_marker

__all__ = ["MarkerTopic"]

C = TypeVar("C", bound=ClientConfig)


class MarkerTopic:
    """The markers of all relays that share the topic."""

    def __init__(self, config: ProducerConfig, topic: str) -> None:
        self.topic = topic
        self._most_seconds = config.transaction_timeout_ms / 1000 + SECONDS_TO_ABORT
        self._client = _part_of(config, ClientConfig)
        self._ends = _part_of(config, ReaderConfig)
        self._committed = self._ends.model_copy(update={"isolation_level": "read_committed"})
        self._is_checked = False

    async def find(self, keys: Collection[bytes]) -> dict[bytes, Mapping[int, UUID]]:
        """The last committed marker of each of these keys that has one.

        Raises KafkaError if the topic cannot be read to its end, and ConfigurationError if it deletes records.
        """
        partitions = [TopicPartition(self.topic, each.partition) for each in (await self._described()).partitions]
        async with PartitionReader(config=self._ends) as reader:
            ends = await reader.end_offsets(partitions)
        found: dict[bytes, bytes] = {}
        async with PartitionReader(config=self._committed) as reader:
            reader.assign(partitions)
            for partition, end in ends.items():
                reader.stop_at(partition, end)
            try:
                async with asyncio.timeout(self._most_seconds):
                    async for record in reader:
                        if record.key is not None and record.key in keys and record.value is not None:
                            found[record.key] = record.value
            except TimeoutError:
                raise KafkaTimeoutError(
                    f"topic {self.topic!r} of the outbox's markers could not be read to its end within "
                    f"{self._most_seconds:g} s: a transaction is open there, or its leader cannot be reached",
                    topic=self.topic,
                ) from None
        return {key: decode_marker(value) for key, value in found.items()}

    # internals

    async def _described(self) -> TopicDescription:
        async with TopicAdmin(config=self._client) as admin:
            topic = (await admin.describe_existing([self.topic])).get(self.topic)
            if topic is None:
                topic = await create_marker_topic(admin, self.topic)
            if not self._is_checked:
                await self._check_policy(admin)
                self._is_checked = True
            return topic

    async def _check_policy(self, admin: TopicAdmin) -> None:
        try:
            policy = await unfit_policy(admin, self.topic)
        except TopicAuthorizationFailedError:  # no right to see it: the operator must know it
            return
        if policy is not None:
            raise ConfigurationError(
                f"topic {self.topic!r}, which stores the published position, has "
                f"cleanup.policy={policy}: expected compact, or another topic as marker_topic"
            )


def _part_of(config: ProducerConfig, kind: type[C]) -> C:
    return kind(**{name: getattr(config, name) for name in config.model_fields_set if name in kind.model_fields})
