"""``AbsentTopics``: looks up topics for which a producer had no metadata or too few partitions, beside its batches.

Owns one request for each such topic. Without it every further attempt to send would wait for ``max_block_ms``, and no
row of any topic would be published meanwhile.

Rules: ``found`` returns the last answer; holding a row for a topic asks for that topic again. An answer with more
partitions than before ends the topic's holds early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ... import KafkaProducer
from ...errors import KafkaError, MetadataTimeoutError
from ...protocol.api import ApiKey
from .outcomes import Held

__all__ = ["AbsentTopics"]


class AbsentTopics:
    """The absent topics of one producer. ``on_news`` is called when ``pop_released`` has scopes."""

    def __init__(self, producer: KafkaProducer[Any, Any], on_news: Callable[[], None]) -> None:
        self._producer = producer
        self._on_news = on_news
        self._asked: dict[str, asyncio.Task[int | KafkaError]] = {}
        self._held: dict[str, set[Held]] = {}  # by the requested topic
        self._released: set[Held] = set()

    def ask(self, topic: str, held: Held) -> None:
        """Request the topic's partitions, unless that is under way; the held scope is released when they exist."""
        self._held.setdefault(topic, set()).add(held)
        task = self._asked.get(topic)
        if task is None or task.done():
            before = 0 if task is None else task.result()
            known = before if isinstance(before, int) else 0
            self._asked[topic] = asyncio.create_task(self._ask(topic, known))

    def pop_released(self) -> set[Held]:
        """The scopes released since the last call."""
        released, self._released = self._released, set()
        return released

    def found(self, topic: str) -> int | KafkaError | None:
        """The number of its partitions, or the error why it is not known; None for a topic that was never absent."""
        task = self._asked.get(topic)
        if task is None:
            return None
        if task.done():
            return task.result()
        return MetadataTimeoutError(f"topic {topic!r}: no metadata yet", topic=topic)

    async def close(self) -> None:
        """Stop asking."""
        tasks, self._asked = list(self._asked.values()), {}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # internals

    async def _ask(self, topic: str, known: int) -> int | KafkaError:
        found = await self._count(topic)
        if isinstance(found, int) and found > known:
            self._released |= self._held.pop(topic, set())
            self._on_news()
        return found

    async def _count(self, topic: str) -> int | KafkaError:
        try:
            known = await self._producer.partitions_for(topic)
            # A broker is asked: the producer renews a known topic's metadata only when a record needs it.
            body = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
            answer = await self._producer.request(ApiKey.METADATA, body)
            return max([len(known), *(len(each.partitions) for each in answer.topics)])
        except KafkaError as error:
            return error
