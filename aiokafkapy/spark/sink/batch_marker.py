"""``BatchMarker``: describes one task's rows of one micro-batch, written beside the rows in the same transaction.

Owns the marker's form, the names that belong to a task's place (``TaskPlace``), and the comparison of rows that come a
second time. It knows no Kafka and no Spark. Spark's connector has no counterpart; Flink's ``KafkaSink`` keeps the same
facts in its checkpoints.

Rules:

- A marker is found by query and Spark partition. The marker of a later micro-batch replaces it, also when the topic is
  compacted.
- Rows are compared by their number and by a sum over their checksums: a shuffle may give a task that is run again the
  same rows in another order.
"""

from __future__ import annotations

import json
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from ...record.crc import library_crc32c

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchMarker", "ExactlyOnceError", "RowSum", "TaskPlace"]


SEPARATOR: Final = bytes.fromhex("5eed5eed")
"""Stands between a key's bytes and a value's, which would otherwise count as one text."""


class ExactlyOnceError(Exception):
    """``exactlyOnce`` cannot be kept for this write; the text gives the reason and the remedy."""


class TaskPlace(NamedTuple):
    """One Spark partition of one micro-batch of a query; a batch write is micro-batch 0 of the query ``jobId``."""

    query_id: str
    batch_id: int
    partition_id: int

    def __str__(self) -> str:
        return f"micro-batch {self.batch_id} of query {self.query_id}, Spark partition {self.partition_id}"

    @property
    def key(self) -> bytes:
        """The key of this place's markers, the same for all micro-batches."""
        return f"{self.query_id}/{self.partition_id}".encode()

    def transactional_id(self, prefix: str) -> str:
        """The transactional id of every attempt at this place: a later one fences an earlier one."""
        return f"{prefix}-{self.query_id}-{self.partition_id}"


class RowSum:
    """The number of a task's rows, and a sum that does not depend on their order."""

    __slots__ = ("checksum", "rows")

    def __init__(self) -> None:
        self.rows = 0
        self.checksum = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch's rows, and add the checksums of their keys and values."""
        self.rows += batch.num_rows
        self.checksum = (self.checksum + sum(map(library_crc32c(), _rows(batch), repeat(0)))) % 2**64


class BatchMarker(NamedTuple):
    """The rows that are committed at a place."""

    batch_id: int
    rows: int
    checksum: int

    @classmethod
    def of(cls, place: TaskPlace, found: RowSum) -> Self:
        """The marker for these rows."""
        return cls(place.batch_id, found.rows, found.checksum)

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """The marker in a record's value. Raises ExactlyOnceError for a value that is not a marker."""
        try:
            fields = json.loads(value)
            return cls(fields["batch"], fields["rows"], int(fields["checksum"], 16))
        except (ValueError, KeyError, TypeError) as error:
            raise ExactlyOnceError(
                f"a record in the topic of markers is not a marker: {value[:80]!r}; "
                "nothing else may write to that topic"
            ) from error

    def encode(self) -> bytes:
        """The marker as a record's value."""
        return json.dumps({"batch": self.batch_id, "rows": self.rows, "checksum": f"{self.checksum:016x}"}).encode()

    def covers(self, place: TaskPlace) -> bool:
        """True when the rows of this place are committed: of this micro-batch, or of a later one."""
        return self.batch_id >= place.batch_id

    def check(self, place: TaskPlace, found: RowSum) -> None:
        """Raise ExactlyOnceError if these rows, of the marker's own micro-batch, differ from the committed ones."""
        if self.batch_id != place.batch_id or self == BatchMarker.of(place, found):
            return
        told = f"{found.rows} rows" if found.rows != self.rows else f"{found.rows} rows, but other ones"
        raise ExactlyOnceError(
            f"{place}: {self.rows} rows are committed; run again, it has {told}. Rows that move or change when a "
            "micro-batch is run again would be lost or written twice: let a partition's rows follow from the source "
            "alone, without rand(), limits without an order or another number of partitions than before; "
            "repartition(n, column) before the sink holds them in place"
        )


def _rows(batch: pa.RecordBatch) -> list[bytes]:
    """Each row's key and value as one text; null counts as empty. Arrow joins them, in a third of the time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.large_binary()  # together they may exceed the length of a column
    columns = [batch.column(name).cast(kind) for name in ("key", "value") if name in batch.schema.names]
    if len(columns) == 1:
        columns.insert(0, pa.scalar(b"", kind))
    joined = pc.binary_join_element_wise(
        *columns, pa.scalar(SEPARATOR, kind), null_handling="replace", null_replacement=""
    )
    rows: list[bytes] = joined.to_pylist()
    return rows
