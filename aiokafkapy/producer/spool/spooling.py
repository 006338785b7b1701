"""``Spooling``: the spool of one life of a producer, from ``start()`` to ``close()``.

Owns the order in which the parts of the spool begin and end. It knows neither their insides nor the producer's calls.
Kafka has no counterpart.

Events: those of ``spool`` and ``spool_replay``, ``producer.spool_replaying`` (info; records, bytes, maybe_sent), and
``producer.spool_kept`` (warning; records, bytes, folder).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from ...observability import get_logger
from ..intake.record_deadlines import Accepted, RecordDeadlines, accepted_of, places_of
from .spool import Spool
from .spool_replay import SpoolReplay
from .spooling_admission import SpoolingAdmission

if TYPE_CHECKING:
    from ..accumulator.producer_batch import ProducerBatch
    from .spool_runtime import SpoolRuntime

__all__ = ["SpoolStatistics", "Spooling"]

_LOOK_AGAIN: Final = 0.05
"""Seconds between two looks at unsent records, at least."""
MARKED_WITHIN: Final = 1.0
"""Seconds that the end waits for the mark of the records sent last."""
WRITTEN_WITHIN: Final = 1.0
"""Seconds that the disk has for the records it was given, however short the time-out of the close is."""
TIME_TO_WRITE: Final = 1.0
"""Seconds before its deadline at which an unsent record goes to the spool, because the disk needs some; at most half
of its time.
"""
BUSY_FOR: Final = 0.5
"""Seconds that a batch may wait for a leader that is connected: until then the leader counts as busy, not as
unreachable.
"""

_logger = get_logger(__name__)


class SpoolStatistics(NamedTuple):
    """The spool at one moment; see ``ProducerStatistics``."""

    spooled: int
    spool_records: int
    spool_bytes: int
    spool_replayed: int
    spool_repeated: int
    spool_refused: int


class Spooling:
    """Made with the runtime; it makes the runtime's ``admission``."""

    def __init__(self, runtime: SpoolRuntime) -> None:
        self._runtime = runtime
        self._spool = Spool(runtime.config, runtime.loop, runtime.teller)
        self._task: asyncio.Task[None] | None = None
        after = runtime.config.spool_after_ms
        self._after = None if after is None else after / 1000
        self._latest = _early(runtime.config.delivery_timeout_ms / 1000)
        self._timer: asyncio.TimerHandle | None = None
        self._nearly_overdue = RecordDeadlines(runtime.loop, self._on_nearly_overdue)
        if self._after is not None:
            runtime.deadlines.on_add = self._note_deadline
        self.admission = SpoolingAdmission(runtime, self._spool, self._is_connected)
        self._replay = SpoolReplay(runtime, self._spool, self._is_out_of_reach)

    async def open(self) -> None:
        """Take the folder; its records are sent from now on. Raises SpoolError."""
        found = await self._spool.open()
        if found.records:
            fields = {"records": found.records, "bytes": found.size, "maybe_sent": found.maybe_sent}
            _logger.info("producer.spool_replaying", **fields)
        self._replay.begin_at(found.mark)
        self._task = self._runtime.loop.create_task(self._replay.run(), name="aiokafkapy-spool")

    def watch(self, wakeup: Callable[[], object]) -> Callable[[], object]:
        """The accumulator calls it to wake the Sender: from then on a timer looks for batches that wait for long."""
        if self._after is None:
            return wakeup

        def wakeup_and_watch() -> None:
            wakeup()
            if self._timer is None and self._after is not None:  # no batch is watched once it has ended
                self._arm(min(self._after, self._latest))

        return wakeup_and_watch

    def statistics(self) -> SpoolStatistics:
        """The counts at this moment."""
        spool = self._spool
        return SpoolStatistics(spool.spooled, spool.records, spool.size, spool.replayed, spool.repeated, spool.refused)

    @property
    def error(self) -> str | None:
        """The reason why the spool's records are not sent, if the disk is at fault."""
        return self._replay.error

    def has(self, topic: str) -> bool:
        """True while the topic has records in the spool: newer ones go there, too."""
        return self._spool.has(topic)

    async def written(self, timeout: float | None) -> bool:
        """Return when all records spooled by now are on disk; False when ``timeout`` came first."""
        try:
            async with asyncio.timeout(timeout):
                await self._spool.written()
        except TimeoutError:
            return False
        return True

    def stop_sending(self) -> None:
        """Begin no further window: records in the spool stay there. Records in memory go there before their time is
        over, whatever ``spool_after_ms`` is.
        """
        if self._after is None and not self._replay.is_ending:
            self._after = math.inf
            self._arm(_LOOK_AGAIN)
        self._replay.is_ending = True
        self._replay.give_back()
        self._spool.wake_readers()

    def keep_unsent(self) -> None:
        """The producer ends: unsent records in memory go to the spool, unless the spool has older records of their
        topic.
        """
        batches = self._runtime.accumulator.incomplete
        topics = {batch.topic_partition.topic for batch in batches}
        self.admission.evacuate([one for one in topics if self._may_go(one)], "the producer was closed")

    async def close(self, timeout: float | None) -> None:
        """Release the folder, when the records on their way there are on disk, or after ``timeout`` seconds."""
        self.abort()
        if self._task is not None:
            # Its records have their outcomes by now; this leaves it time to write the mark.
            await asyncio.wait([self._task], timeout=MARKED_WITHIN)
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._spool.close(None if timeout is None else max(timeout, WRITTEN_WITHIN))
        if self._spool.records:
            fields = {"records": self._spool.records, "bytes": self._spool.size, "folder": str(self._spool.folder)}
            _logger.warning("producer.spool_kept", **fields)

    def abort(self) -> None:
        """End without waiting."""
        self.stop_sending()
        self._after = None
        self._nearly_overdue.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._task is None or self._task.done():
            self._spool.end()
            return
        self._task.add_done_callback(lambda _: self._spool.end())
        if not self._replay.is_sending:
            self._task.cancel()

    def release_lock(self) -> None:
        """This is the child of a fork."""
        self._spool.release_lock()

    # asyncio callbacks

    def _on_timer(self) -> None:
        """Move records that wait for too long; look again when the next one may have, as long as any wait."""
        self._timer = None
        after, now, runtime = self._after, self._runtime.now(), self._runtime
        batches = runtime.accumulator.incomplete
        if after is None or not (batches or (self._replay.is_ending and runtime.admission.waiting)):
            return
        due: dict[str, float] = {}
        for batch in batches:
            topic = batch.topic_partition.topic
            if batch.may_be_taken_back and self._may_go(topic):
                linger = self._linger(topic)
                unsent = max(0.0, min(after, self._latest - linger))
                due[topic] = min(due.get(topic, math.inf), batch.created + linger + unsent)
        late = [topic for topic, time in due.items() if time <= now]
        longest = min(after, self._latest)
        if late:
            self.admission.evacuate(late, f"not sent for {longest:g} s: {runtime.metadata.describe_failure()}")
        self._arm(max(_LOOK_AGAIN, min((time - now for time in due.values() if time > now), default=longest)))

    def _on_nearly_overdue(self, records: list[Accepted]) -> None:
        """Move the unsent records with all of their topics; otherwise the topic's turn may come much later."""
        now, runtime = self._runtime.now(), self._runtime
        results = places_of(accepted_of(records, self.admission.spool_if_unanswered))
        late = {
            batch.topic_partition.topic: None
            for batch in runtime.accumulator.incomplete
            if batch.produce_result in results and batch.may_be_taken_back and self._is_stuck(batch, now)
        }
        topics = [topic for topic in late if self._may_go(topic)]
        if topics:
            reason = f"not sent when the time of its call was nearly over: {runtime.metadata.describe_failure()}"
            self.admission.evacuate(topics, reason)

    # internals

    def _note_deadline(self, record: Accepted, deadline: float) -> None:
        now = self._runtime.now()
        self._nearly_overdue.add(record, now + _early(deadline - now))

    def _is_stuck(self, batch: ProducerBatch, now: float) -> bool:
        """True when the batch waits for its leader, and not for more records."""
        waited = now - batch.created - self._linger(batch.topic_partition.topic)
        leader = self._runtime.metadata.cluster.leader_for(batch.topic_partition)
        if leader is not None and self._runtime.client.nodes.is_connection_ready(leader.node_id, now):
            return waited >= BUSY_FOR
        return waited >= 0

    def _linger(self, topic: str) -> float:
        return self._runtime.config.for_topic(topic).effective_linger_ms / 1000

    def _may_go(self, topic: str) -> bool:
        return self.admission.is_spooling(topic) and not self._spool.has(topic)

    def _arm(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()  # moving records out wakes the Sender, and so arms it too
        self._timer = self._runtime.loop.call_later(seconds, self._on_timer)

    def _is_out_of_reach(self) -> bool:
        return self._runtime.metadata.last_failure is not None or not self._is_connected()

    def _is_connected(self) -> bool:
        runtime = self._runtime
        nodes, now = runtime.client.nodes, runtime.now()
        return any(nodes.is_connection_ready(node.node_id, now) for node in runtime.metadata.cluster.nodes)


def _early(seconds: float) -> float:
    """The part of a record's time after which it goes to the spool."""
    return max(seconds / 2, seconds - TIME_TO_WRITE)
