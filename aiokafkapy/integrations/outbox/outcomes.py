"""The outcomes of the rows of a batch: published, refused, to be tried alone, or to be tried later.

Pure: it judges errors and knows neither database nor producer. Kafka's ``Errors`` are retriable or not; an outbox
instead needs the cause of a fault.

Rules:

- A row is refused only for a fault of its record. Any other fault (an outage, missing rights, a missing topic) may
  pass: the topic is held for a time, and no later row overtakes it.
- A broker refuses a whole batch because of one record. Sending the records one by one finds it.
- A row that failed only because of a record before it stays pending.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

from ...errors import (
    GaplessGuaranteeError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTopicError,
    KafkaError,
    MessageTooLargeError,
    PolicyViolationError,
    SerializationError,
    TransactionAbortedError,
    UnsupportedForMessageFormatError,
)
from .rows import OutboxRow

__all__ = ["Held", "OnError", "Outcome", "Verdict", "cut", "held_by", "judge", "reason_of"]

OnError: TypeAlias = Literal["stop", "skip"]

RECORDS_FAULT: Final = (
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTopicError,
    MessageTooLargeError,
    PolicyViolationError,
    SerializationError,
    UnsupportedForMessageFormatError,
)


class Verdict(Enum):
    """The verdict on a row that was not published."""

    REFUSED = "refused"
    """The row's record is at fault: it would be refused again."""
    BEHIND = "behind"
    """Another record is at fault."""
    HELD = "held"
    """The cluster, the topic or the rights are at fault."""


class Held(NamedTuple):
    """The scope that is tried later: a ``topic``, a ``lane`` or a ``shard``, or all of ``kafka``."""

    kind: Literal["kafka", "shard", "topic", "lane"]
    name: str | int

    def __str__(self) -> str:
        return self.kind if self.kind == "kafka" else f"{self.kind} {self.name}"


EVERYTHING: Final = Held("kafka", "")


@dataclass
class Outcome:
    """The outcome of one batch; rows in no list stay pending."""

    published: list[OutboxRow] = field(default_factory=list)
    refused: list[tuple[OutboxRow, str]] = field(default_factory=list)
    suspected: set[int] = field(default_factory=set)
    """Ids of rows to send alone."""
    held: dict[Held, KafkaError] = field(default_factory=dict)

    @property
    def is_explained(self) -> bool:
        """True if it has a reason why not every row is published."""
        return bool(self.refused or self.suspected or self.held)

    @property
    def is_progress(self) -> bool:
        """True if the next batch will differ."""
        return bool(self.published) or self.is_explained

    def add(self, other: Outcome) -> None:
        """Add the outcomes of other rows."""
        self.published += other.published
        self.refused += other.refused
        self.suspected |= other.suspected
        self.held |= other.held


def judge(error: BaseException) -> Verdict:
    """The cause of an error."""
    if isinstance(error, GaplessGuaranteeError | TransactionAbortedError):
        return Verdict.BEHIND
    if isinstance(error, RECORDS_FAULT) or not isinstance(error, KafkaError):
        return Verdict.REFUSED
    return Verdict.HELD


def reason_of(error: KafkaError) -> KafkaError:
    """The reason why a transaction was aborted, if a record's error says only that it was."""
    cause = error.__cause__
    return cause if isinstance(error, TransactionAbortedError) and isinstance(cause, KafkaError) else error


def held_by(row: OutboxRow) -> Held:
    """The scope to hold when this row could not be sent: a missing partition does not hold its topic."""
    return Held("topic", row.topic) if row.partition is None else Held("lane", row.lane)


def cut(rows: Sequence[OutboxRow], suspected: Collection[int]) -> Sequence[OutboxRow]:
    """The first of these rows, up to one that must be sent alone; or that row alone, if it is the first."""
    for number, row in enumerate(rows if suspected else ()):
        if row.id in suspected:
            return rows[: max(number, 1)]
    return rows
