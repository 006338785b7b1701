"""``MarkerTopic``: makes and reads the topic that remembers the committed micro-batches.

Owns two readers: one asks for the end of the log, the other reads committed records up to it. ``batch_marker`` defines
the content of a marker. It lives on a worker's event loop.

Rules:

- ``find`` returns markers that were committed before it was called: it reads up to the end of the log, not up to the
  last stable offset, and so waits for transactions that are just being committed there.
- It reads only records that are new since its last call, and the whole topic only once per process.
- A missing topic is made for a query's first micro-batch only. Later on the markers would be missing with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ...admin.marker_topics import create_marker_topic, unfit_policy
from ...admin.topics import TopicAdmin, TopicDescription
from ...client.config import ClientConfig
from ...common import TopicPartition
from ...errors import TopicAuthorizationFailedError
from ...observability import get_logger
from ...reader.config import ReaderConfig
from ...reader.partition_reader import PartitionReader
from .batch_marker import BatchMarker, ExactlyOnceError, TaskPlace

__all__ = ["MarkerTopic"]

_logger = get_logger(__name__)


class MarkerTopic:
    """The markers in one topic, as far as they are read."""

    def __init__(self, properties: Mapping[str, str], topic: str, most_seconds: float) -> None:
        self.topic = topic
        self._most_seconds = most_seconds
        self._config = ClientConfig.from_properties(properties)
        reader_config = ReaderConfig.from_properties(properties)
        self._ends = PartitionReader(config=reader_config)
        self._committed = PartitionReader(config=reader_config.model_copy(update={"isolation_level": "read_committed"}))
        self._partitions: list[TopicPartition] = []
        self._markers: dict[bytes, bytes] = {}  # undecoded: most are of other queries, or of earlier ones

    async def open(self, place: TaskPlace) -> None:
        """Make sure that the topic exists and keeps its records. Raises ExactlyOnceError."""
        async with TopicAdmin(config=self._config) as admin:
            found = (await admin.describe_existing([self.topic])).get(self.topic)
            if found is None:
                found = await self._create(admin, place)
            await self._check_policy(admin)
        await self._ends.start()
        await self._committed.start()
        self._partitions = [TopicPartition(self.topic, each.partition) for each in found.partitions]
        self._committed.assign(self._partitions)

    async def close(self) -> None:
        """Close the connections."""
        await self._ends.close()
        await self._committed.close()

    async def find(self, place: TaskPlace) -> BatchMarker | None:
        """The last marker of this place that was committed before this call. Raises ExactlyOnceError when the topic has
        lost records, or a transaction stays open in it, or if the place's record is not a marker.
        """
        await self._read_to_the_end()
        value = self._markers.get(place.key)
        return None if value is None else BatchMarker.decode(value)

    async def wait_for(self, place: TaskPlace, seconds: float) -> BatchMarker | None:
        """The marker of this place once it covers the micro-batch; None if it has not come within these seconds."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    marker = await self.find(place)
                    if marker is not None and marker.covers(place):
                        return marker
                    await asyncio.sleep(0.2)
        except TimeoutError:
            return None

    # internals

    async def _create(self, admin: TopicAdmin, place: TaskPlace) -> TopicDescription:
        if place.batch_id > 0:
            raise ExactlyOnceError(
                f"topic {self.topic!r}, which stores the committed batches, does not exist, and this is {place}: "
                "whether it was written before cannot be told. If the topic was deleted, start a new query; if this "
                "query never had exactlyOnce before, create it with one partition and cleanup.policy=compact"
            )
        return await create_marker_topic(admin, self.topic)

    async def _check_policy(self, admin: TopicAdmin) -> None:
        """Refuse a topic that deletes its records after a time, as a topic made by the broker itself does."""
        try:
            policy = await unfit_policy(admin, self.topic)
        except TopicAuthorizationFailedError as error:
            _logger.warning("spark.marker_topic_not_checked", topic=self.topic, error=str(error))
            return
        if policy is not None:
            raise ExactlyOnceError(
                f"topic {self.topic!r}, which is to store the committed batches, has "
                f"cleanup.policy={policy}: expected compact, or another topic in option 'exactlyOnceTopic'"
            )

    async def _read_to_the_end(self) -> None:
        ends = await self._ends.end_offsets(self._partitions)
        for partition, end in ends.items():
            read = self._committed.position(partition)
            if read is not None and read > end:
                raise ExactlyOnceError(
                    f"{partition} ends at offset {end}, and was read to {read}: topic {self.topic!r}, which stores "
                    "the committed batches, was deleted and made anew. Start a new query"
                )
            self._committed.stop_at(partition, end)
        try:
            async with asyncio.timeout(self._most_seconds):
                async for record in self._committed:
                    if record.key is not None and record.value is not None:
                        self._markers[record.key] = record.value
        except TimeoutError:
            raise ExactlyOnceError(
                f"topic {self.topic!r} could not be read to its end, {ends}, within {self._most_seconds:g} s: its "
                "leader cannot be reached, or a transaction is open there, of this query or of another one with a "
                "longer kafka.transaction.timeout.ms: give each a topic of its own, option 'exactlyOnceTopic'"
            ) from None
