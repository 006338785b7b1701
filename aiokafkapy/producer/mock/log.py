"""The records that a ``MockProducer`` was given, and their outcomes: Java's ``sent``, ``uncommittedSends`` and
``completions``.

Owns the records in the order in which they were accepted, their offsets and their outcomes. It knows no event loop and
no arguments; its caller says whether a transaction is open.

Rules: a record without an outcome is completed in the order of acceptance; an offset is given with success, so that a
record that failed takes none, as in a partition's log; records after a cut, which belong to the transaction after the
one that is being committed, can be completed only when that one is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...common import ConsumedRecord, Headers, TopicPartition
from ..deliveries.produce_request_result import ProduceRequestResult
from ..records import INVALID_OFFSET, ProducerRecord
from ..transactional.group_offsets import OffsetToCommit

__all__ = ["GroupOffsets", "MockLog", "SentRecord"]

GroupOffsets = dict[str, dict[TopicPartition, OffsetToCommit]]
"""The offsets of a transaction, by group."""


@dataclass(slots=True, eq=False)
class SentRecord:
    """One record that was accepted. ``record`` is as its caller, or the last interceptor, had it."""

    record: ProducerRecord
    topic_partition: TopicPartition
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    result: ProduceRequestResult
    offset: int = INVALID_OFFSET
    error: BaseException | None = None

    def consumed(self) -> ConsumedRecord:
        """As a consumer would see it; without an outcome its offset is -1."""
        topic, partition = self.topic_partition
        return ConsumedRecord(self.offset, self.key, self.value, self.headers, self.timestamp_ms, topic, partition)


class MockLog:
    """The records of one ``MockProducer``. ``on_failure`` is called for each that failed in an open transaction."""

    def __init__(self, on_failure: Callable[[SentRecord], None]) -> None:
        self._on_failure = on_failure
        self.sent: list[SentRecord] = []
        """The records outside of transactions, and of committed ones."""
        self.uncommitted: list[SentRecord] = []
        """The records of the open transaction."""
        self.next: list[SentRecord] = []
        """The records of the transaction after it, while it is being committed."""
        self._incomplete: deque[SentRecord] = deque()
        self._offsets: dict[TopicPartition, int] = {}
        self.uncommitted_offsets: GroupOffsets = {}
        self.offsets: list[GroupOffsets] = []
        """The offsets of the committed transactions that had any."""
        self.accepted = self.delivered = self.failed = 0

    @property
    def pending(self) -> int:
        """Records without an outcome."""
        return len(self._incomplete) + len(self.next)

    def add(self, sent: SentRecord, *, in_transaction: bool, is_of_next: bool) -> None:
        """Keep a record that was accepted."""
        self.accepted += 1
        if is_of_next:
            self.next.append(sent)
            return
        (self.uncommitted if in_transaction else self.sent).append(sent)
        self._incomplete.append(sent)

    def complete_next(self, error: BaseException | None = None) -> bool:
        """Give the oldest record without an outcome its outcome; False without such a record."""
        if not self._incomplete:
            return False
        self._settle(self._incomplete.popleft(), error)
        return True

    def complete_all(self, error: BaseException | None = None) -> None:
        """Give every record without an outcome its outcome."""
        while self.complete_next(error):
            pass

    def fail(self, results: set[ProduceRequestResult], error: BaseException) -> None:
        """Fail those records without an outcome whose results these are."""
        for sent in [each for each in (*self._incomplete, *self.next) if each.result in results]:
            self._take(sent)
            self._settle(sent, error)

    def fail_if(self, is_meant: Callable[[TopicPartition], bool], make_error: Callable[[SentRecord], Exception]) -> int:
        """Fail the records without an outcome of these partitions; returns their number."""
        meant = [each for each in (*self._incomplete, *self.next) if is_meant(each.topic_partition)]
        for sent in meant:
            self._take(sent)
            self._settle(sent, make_error(sent))
        return len(meant)

    def fail_next(self, error: BaseException) -> None:
        """Fail the records after a cut: their transaction will not begin."""
        for sent in self.next:
            sent.error = error
            self.failed += 1
            sent.result.fail(error)
        self.next.clear()

    # transactions

    def add_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetToCommit]) -> None:
        """A group's offsets, of the open transaction."""
        self.uncommitted_offsets.setdefault(group_id, {}).update(offsets)

    def commit(self) -> None:
        """The open transaction is committed."""
        self.sent += self.uncommitted
        if self.uncommitted_offsets:
            self.offsets.append(self.uncommitted_offsets)
        self.uncommitted, self.uncommitted_offsets = [], {}

    def abort(self) -> None:
        """The open transaction is aborted."""
        self.uncommitted, self.uncommitted_offsets = [], {}

    def begin_next(self) -> None:
        """The transaction of the records after the cut begins."""
        self.uncommitted += self.next
        self._incomplete += self.next
        self.next = []

    def clear(self) -> None:
        """Forget everything but the partitions' ends; records without an outcome get none."""
        for sent in (*self._incomplete, *self.next):
            sent.result.abandon()
        self._incomplete.clear()
        self.sent, self.uncommitted, self.next = [], [], []
        self.offsets, self.uncommitted_offsets = [], {}

    # internals

    def _take(self, sent: SentRecord) -> None:
        (self._incomplete if sent in self._incomplete else self.next).remove(sent)

    def _settle(self, sent: SentRecord, error: BaseException | None) -> None:
        if error is None:
            sent.offset = self._offsets.get(sent.topic_partition, 0)
            self._offsets[sent.topic_partition] = sent.offset + 1
            self.delivered += 1
            sent.result.succeed(sent.offset, -1)
            return
        sent.error = error
        self.failed += 1
        sent.result.fail(error)
        if sent in self.uncommitted:
            self._on_failure(sent)
