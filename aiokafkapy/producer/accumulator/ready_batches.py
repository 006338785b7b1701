"""``ReadyBatches``: finds the batches that are ready and their nodes, and takes them into requests.

Owns linger, back-off, hurry and the round of partitions; and stamps a batch's identity and sequence when it leaves. It
knows nothing of the filling of batches. Kafka's counterparts are ``RecordAccumulator.ready`` and ``drain``.

Rules:

- Linger is measured from the first record of a batch. With ``linger`` None a batch is ready as soon as its leader has
  no Produce request in flight, and otherwise gathers for at most ``ADAPTIVE_LINGER``; for longer when so many
  partitions have data that sending a batch of each takes longer. A batch costs us and the broker the same however few
  records it holds: sent every 5 ms to ten thousand partitions, most would hold one.
- With an ``auto_linger`` it gives the linger while a request is in flight, again at each call.
- A batch that is ready at ``ready`` is taken by ``drain`` (except for its size bound), and another has its time in
  ``next_ready_check_delay``: call ``ready`` again after each drain and at that time, and never in between. A batch
  that is opened meanwhile needs no look either, while older ones of its leader gather.
- A topic may have a linger of its own, which its batches wait out even when a request to their leader could take them
  along; or an endless one: then only a flush sends them, however full they are, and a batch that was sent once is sent
  again.
- Only the first batch of a partition is looked at, so those after it wait as long as it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ... import _form as cython
else:
    try:
        import cython
    except ImportError:  # interpreted, where there is no Cython
        from ... import _form as cython

from ...common import NO_LEADER
from ..identity.sequenced_batch import NO_SEQUENCE
from ..options.linger_bounds import ADAPTIVE_LINGER_MS
from .auto_linger import RECHECK, AutoLinger
from .batch_queues import NOBODY, BatchQueues
from .batch_sealer import BatchSealer
from .batch_successors import split
from .partition_queue import PartitionQueue
from .producer_batch import ProducerBatch

if TYPE_CHECKING:
    from ...cluster.cluster import Cluster
    from ..identity.transaction_manager import TransactionManager
    from .phase_timer import PhaseTimer
    from .record_appender import RecordAppender

__all__ = ["ADAPTIVE_LINGER", "ReadyBatches", "ReadyCheckResult"]

ADAPTIVE_LINGER: Final = ADAPTIVE_LINGER_MS / 1000
"""Seconds that a batch gathers behind a request in flight, with ``linger_ms=None`` and few partitions."""
TIME_OF_BATCH: Final = 20e-6
"""Seconds that a batch takes, about, besides its records: ours and the broker's, until it is answered."""
LONGEST_LINGER: Final = 0.25
"""Seconds that a batch gathers behind a request in flight, with any number of partitions."""

SPLIT_AT_ONCE: Final = 65_536
"""Bytes of batches that are split in one drain; the last one may exceed them. It takes some milliseconds."""

NOTHING: Final[Set[str]] = frozenset()
"""No topics, as nearly always is the case."""

_NEVER: Final = float("inf")
# Numbers of C's, compiled
_TIME_OF_BATCH: Final = TIME_OF_BATCH
_LONGEST_LINGER: Final = LONGEST_LINGER
_RECHECK: Final = RECHECK
_SPLIT_AT_ONCE: Final = SPLIT_AT_ONCE


# Said here and not in the .pxd, for Cython takes it from the source only.
@cython.freelist(8)
@cython.final
@cython.cclass
class ReadyCheckResult:
    """The result of ``ready``: node ids to send to, seconds until something else is ready (or infinity), topics to look
    up.
    """

    __slots__ = ("next_ready_check_delay", "ready_nodes", "unknown_leader_topics")

    def __init__(
        self, ready_nodes: Set[int], next_ready_check_delay: float, unknown_leader_topics: Set[str] = NOTHING
    ) -> None:
        self.ready_nodes = ready_nodes
        self.next_ready_check_delay = next_ready_check_delay
        self.unknown_leader_topics = unknown_leader_topics

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReadyCheckResult) and self._fields() == other._fields()

    def __repr__(self) -> str:
        return f"ReadyCheckResult{self._fields()}"

    def _fields(self) -> tuple[object, ...]:
        return self.ready_nodes, self.next_ready_check_delay, self.unknown_leader_topics


class ReadyBatches:
    """The way out of the accumulator."""

    __slots__ = (
        "_gathered_for",
        "_is_hurried",
        "_is_linger_adaptive",
        "_linger",
        "_next_look",
        "_queues",
        "_sealer",
        "_split_bytes",
        "_transaction_manager",
        "appender",
        "auto_linger",
        "timer",
    )

    def __init__(
        self,
        queues: BatchQueues,
        sealer: BatchSealer,
        transaction_manager: TransactionManager | None,
        linger: float | None,
    ) -> None:
        self._queues = queues
        self._sealer = sealer
        self._transaction_manager = transaction_manager
        self._is_linger_adaptive = linger is None
        self._linger = ADAPTIVE_LINGER if linger is None else linger
        self._is_hurried = False  # at the last ``ready``
        self._gathered_for = self._linger  # also of the last ``ready``
        # How much was split in this drain. The appender has to forget a batch that was split
        self._split_bytes = 0
        self.appender: RecordAppender | None = None
        # With a linger of None, ``auto_linger`` decides while a leader is busy
        self.auto_linger: AutoLinger | None = None
        self._next_look = _NEVER
        # Told when batches are ready and sent, with ``record_timing``
        self.timer: PhaseTimer | None = None

    def ready(self, cluster: Cluster, now: float, in_flight: dict[int, int], is_hurried: bool) -> ReadyCheckResult:
        """The nodes that can be sent batches now; ``in_flight`` has the nodes with Produce requests.

        ``is_hurried``: nothing lingers. Batches that are ready but too large to compress here go to the sealer's
        threads.
        """
        ready_nodes: set[int] = set()
        gathering: Set[int] = NOBODY
        unknown_leader_topics: Set[str] = NOTHING
        self._is_hurried = is_hurried
        linger = self._gathering_time(now) if self._is_linger_adaptive else self._linger
        self._gathered_for = linger
        next_ready = self._next_look
        for leader, queues in self._queues.by_leader(cluster).items():
            if leader == NO_LEADER:
                unknown_leader_topics = frozenset([queue.topic_partition[0] for queue in queues])
                continue
            lingers = bool(queues) and not is_hurried and not (self._is_linger_adaptive and leader not in in_flight)
            is_ready = False
            for queue in queues:
                if queue.is_muted:
                    continue
                batch = queue.batches[0]
                batch.maybe_update_leader_epoch(queue.leader_epoch)
                if batch.is_backing_off(now):
                    next_ready = min(next_ready, batch.retry_at)
                    continue
                if is_ready and not batch.needs_compression:
                    continue
                if queue.linger > 0:  # its topic's own
                    lingers_until = self._own_linger_ends(queue, batch)
                    if now < lingers_until:
                        next_ready = min(next_ready, lingers_until)
                        continue
                elif lingers and queue.linger < 0 and not (batch.attempts or batch.is_full or len(queue.batches) > 1):
                    lingers_until = batch.created + linger
                    if now < lingers_until:
                        next_ready = min(next_ready, lingers_until)
                        gathering = gathering | {leader}
                        continue
                if self._must_stay(queue, batch):
                    continue
                if not batch.compression:
                    ready_nodes.add(leader)
                    break  # the others change nothing: ask again after the drain
                is_ready = True  # but more may have to go to a thread
            if is_ready:
                ready_nodes.add(leader)
            if self.timer is not None:
                self._note_ready(queues, now, leader in ready_nodes)
        self._queues.gathering = gathering
        result = ReadyCheckResult.__new__(ReadyCheckResult)  # without the constructor, which is a Python call
        result.ready_nodes = ready_nodes
        result.next_ready_check_delay = max(0.0, next_ready - now)
        result.unknown_leader_topics = unknown_leader_topics
        return result

    def drain(
        self, cluster: Cluster, node_ids: Iterable[int], max_request_size: int, now: float
    ) -> dict[int, list[ProducerBatch]]:
        """Take the first batch of each sendable partition of these nodes, for one request to each node.

        A node's batches stay within ``max_request_size`` bytes, except for a first one that alone is larger. A
        partition that was drained goes to the back of the round; those of topics with priority come before all others.
        The batches are sealed, stamped, and in flight. A batch that was filled before its topic had so low a limit is
        split first; if too much was split already, a later drain takes it.
        """
        self._split_bytes = 0
        rounds = self._queues.by_leader(cluster)
        return {node_id: self._drain_node(rounds.get(node_id, {}), max_request_size, now) for node_id in node_ids}

    # internals

    def _note_ready(self, queues: dict[PartitionQueue, None], now: float, takes_all: bool) -> None:
        """Tell the timer. ``takes_all``: a request goes to the leader, and takes its other partitions' batches
        along.
        """
        if self.timer is None:
            return
        for queue in queues:
            if self._is_hurried:
                for batch in reversed(queue.batches):
                    if not self.timer.ready(batch, now):
                        break  # nor is a batch before it new
                continue
            batch = queue.batches[0]
            if queue.linger > 0:
                is_ready = now >= self._own_linger_ends(queue, batch)
            else:
                is_ready = takes_all and not queue.is_muted
                last = queue.batches[-1]
                if last.is_full:  # those before it were closed, which told the timer
                    self.timer.ready(last, now)
            if is_ready:
                self.timer.ready(batch, now)

    def _drain_node(self, queues: dict[PartitionQueue, None], max_request_size: int, now: float) -> list[ProducerBatch]:
        chosen: list[PartitionQueue] = []
        size = 0
        if self._queues.has_priorities:
            queues = _priorities_first(queues)
        for queue in queues:
            if queue.is_muted:
                continue
            batch = queue.batches[0]
            batch.maybe_update_leader_epoch(queue.leader_epoch)
            if batch.is_backing_off(now) or self._must_stay(queue, batch):
                continue
            if queue.linger > 0 and now < self._own_linger_ends(queue, batch):
                continue
            if batch.compression:
                if queue.open_batch is batch:
                    queue.open_batch = None
                self._sealer.seal(batch)  # only then its size is known
            elif batch.builder.size > queue.max_message_bytes:
                if not self._make_fit(queue, batch):
                    continue
                batch = queue.batches[0]
            if chosen and size + batch.builder.size > max_request_size:
                break  # full: this partition will be the first of the next round
            size += batch.builder.size
            chosen.append(queue)
        batches = []
        for queue in chosen:
            batch = self._queues.take_first(queue)
            self._sealer.seal(batch)
            # A retry keeps the sequence that it has, or it would be another batch.
            if self._transaction_manager is not None and batch.base_sequence == NO_SEQUENCE:
                self._transaction_manager.stamp(batch)
            batch.drained(now)
            batches.append(batch)
            if self.timer is not None:
                self.timer.attempted(batch, queue.linger if queue.linger >= 0 else self._gathered_for)
        if batches:
            self._queues.gathering = NOBODY  # the batches that gathered may be gone
        return batches

    def _make_fit(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        """Split the first batch of ``queue``, unless only the broker can tell its outcome; False if that is too much
        at once.
        """
        if batch.record_count < 2 or not batch.may_be_taken_back:
            return True
        if self._split_bytes >= _SPLIT_AT_ONCE:
            return False
        self._split_bytes += batch.builder.size
        successors = split(batch, queue.max_message_bytes)
        queue.replace_first(successors)
        self._sealer.exchange(batch, successors)
        if self.appender is not None:
            self.appender.forget(batch)
        return True

    def _gathering_time(self, now: float) -> float:
        linger = self._linger
        if self.auto_linger is not None:
            linger = self.auto_linger.linger(now)
            if linger <= 0:
                self._next_look = _NEVER
                return linger
            self._next_look = now + _RECHECK  # it may be quiet by then
        return min(max(linger, _TIME_OF_BATCH * self._queues.count()), _LONGEST_LINGER)

    def _own_linger_ends(self, queue: PartitionQueue, batch: ProducerBatch) -> float:
        if self._is_hurried or batch.attempts:
            return 0.0
        if queue.linger < _NEVER and (batch.is_full or len(queue.batches) > 1):
            return 0.0
        return batch.created + queue.linger

    def _must_stay(self, queue: PartitionQueue, batch: ProducerBatch) -> bool:
        manager = self._transaction_manager
        if manager is not None and manager.should_stop_drain_batches_for_partition(queue.topic_partition, batch):
            return True
        return batch.compression != 0 and self._sealer.must_wait(queue, batch)


def _priorities_first(queues: dict[PartitionQueue, None]) -> dict[PartitionQueue, None]:
    """The round, each kind in its order."""
    return dict.fromkeys(sorted(queues, key=_has_no_priority))


def _has_no_priority(queue: PartitionQueue) -> bool:
    return not queue.has_priority
