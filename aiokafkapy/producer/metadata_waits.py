"""``MetadataWaits``: the calls of a started producer that wait for metadata.

Owns the limit of their wait, and the error of each when the metadata does not come. It knows no requests: the network
client requests metadata, and ``wake`` is called when an answer, or a failure, has arrived. Records wait in
``Admission``. Kafka's counterpart is ``KafkaProducer.waitOnMetadata``.

Rule: a wait ends within ``max_block_ms``, with the cause of the last failure in its error, and at once when the
producer is closed or its credentials are refused.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..common import PartitionInfo
from ..errors import (
    MetadataTimeoutError,
    ProducerClosedError,
)
from .intake.admission import Admission
from .metrics import CallMetrics
from .producer_metadata import ProducerMetadata

if TYPE_CHECKING:
    from ..cluster.cluster import TopicMetadata
    from .config import ProducerConfig

__all__ = ["MetadataWaits"]


class MetadataWaits:
    """The waits of one life of a producer."""

    def __init__(
        self,
        config: ProducerConfig,
        metadata: ProducerMetadata,
        admission: Admission,
        loop: asyncio.AbstractEventLoop,
        calls: CallMetrics,
    ) -> None:
        self._metadata = metadata
        self._admission = admission
        self._loop = loop
        self._calls = calls
        self._max_block = config.max_block_ms / 1000
        self._limit = f"max_block_ms={config.max_block_ms}"
        self._waiters: list[asyncio.Future[None]] = []

    async def change(self, deadline: float) -> bool:
        """Wait for the next outcome of a metadata request; False when the deadline came first."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        await asyncio.wait([waiter], timeout=max(0.0, deadline - self._loop.time()))
        if not waiter.done():
            self._waiters.remove(waiter)
            return False
        waiter.result()
        return True

    async def connected(self) -> MetadataTimeoutError | None:
        """Return when the cluster is known; after ``max_block_ms`` return the error with the cause, address by
        address.
        """
        deadline = self._loop.time() + self._max_block
        while self._metadata.cluster.is_bootstrap:
            self._raise_fatal_error()
            if not await self.change(deadline):
                cause = self._metadata.describe_failure()
                return MetadataTimeoutError(f"no broker answered within {self._limit}: {cause}")
        return None

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions, waiting up to ``max_block_ms`` for its metadata."""
        started = self._loop.time()
        state = self._admission.refresh(topic, started)
        state.askers += 1
        try:
            found = await self._found(topic)
        finally:
            state.askers -= 1
        if found is None:
            cause = self._metadata.describe_failure(topic)
            self._admission.give_up_topic(topic)
            raise MetadataTimeoutError(f"topic {topic!r}: no metadata within {self._limit}: {cause}", topic=topic)
        self._calls.record_time("metadata-wait", self._loop.time() - started)
        return found.made_partitions()

    async def refreshed(self) -> None:
        """Ask for the metadata of all topics in use again, and wait for the answer, up to ``max_block_ms``."""
        deadline = self._loop.time() + self._max_block
        self._metadata.request_update(reset_backoff=True)
        while self._metadata.need_full_update and await self.change(deadline):
            pass

    def wake(self) -> None:
        """A metadata request has its outcome."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        """End every wait: the producer was closed."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(ProducerClosedError("the producer was closed"))
                waiter.exception()

    # internals

    async def _found(self, topic: str) -> TopicMetadata | None:
        """The topic, when it has partitions; None after ``max_block_ms``."""
        metadata = self._metadata
        deadline = self._loop.time() + self._max_block
        too_old = -1
        if topic in metadata.cluster.unauthorized_topics:
            too_old = metadata.request_update_for_topic(topic)  # the right may have been granted since
        while True:
            self._admission.refresh(topic, self._loop.time())
            found = metadata.cluster.topic(topic)
            if found is not None and found.partition_count:
                return found
            refusal = metadata.refusal_of(topic, too_old, "describe")
            if refusal is not None:
                raise refusal
            if not await self.change(deadline):
                return None

    def _raise_fatal_error(self) -> None:
        if self._metadata.fatal_error is not None:
            raise self._metadata.fatal_error.fresh()
