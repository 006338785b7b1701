"""``AbsentTopics``: topics that a producer had no metadata or too few partitions for, asked for beside its batches.

Owns one question for each such topic. Without it every further attempt to send would wait for ``max_block_ms``, and no
row of any topic would be published meanwhile.

Rules: what it says is what the last question found; a row that is held for it has the topic asked for again.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ... import KafkaProducer
from ...errors import KafkaError, MetadataTimeoutError
from ...protocol.api import ApiKey

__all__ = ["AbsentTopics"]


class AbsentTopics:
    """Those of one producer."""

    def __init__(self, producer: KafkaProducer[Any, Any]) -> None:
        self._producer = producer
        self._asked: dict[str, asyncio.Task[int | KafkaError]] = {}

    def ask(self, topic: str) -> None:
        """Ask for its partitions, unless that is under way."""
        task = self._asked.get(topic)
        if task is None or task.done():
            self._asked[topic] = asyncio.create_task(self._count(topic))

    def found(self, topic: str) -> int | KafkaError | None:
        """The number of its partitions, or why it is not known; None for a topic that was never absent."""
        task = self._asked.get(topic)
        if task is None:
            return None
        if task.done():
            return task.result()
        return MetadataTimeoutError(f"topic {topic!r}: no metadata yet", topic=topic)

    async def close(self) -> None:
        """Ask no more."""
        tasks, self._asked = list(self._asked.values()), {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # internals

    async def _count(self, topic: str) -> int | KafkaError:
        try:
            known = await self._producer.partitions_for(topic)
            # A broker is asked: the producer reads metadata of a topic that it knows anew only when a record needs it.
            body = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
            answer = await self._producer.request(ApiKey.METADATA, body)
            return max([len(known), *(len(each.partitions) for each in answer.topics)])
        except KafkaError as error:
            return error
