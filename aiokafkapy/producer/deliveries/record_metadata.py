"""``record_metadata(topic, partition, offset, timestamp_ms, key_size, value_size)``: makes a ``RecordMetadata``.

One is made for each record that is awaited, in the shortest way possible. The compiled twin is
``record_metadata.pyx``. In Java it is the constructor of ``RecordMetadata``.
"""

from __future__ import annotations

from ..records import RecordMetadata

__all__ = ["record_metadata"]


def record_metadata(
    topic: str, partition: int, offset: int, timestamp_ms: int, key_size: int, value_size: int
) -> RecordMetadata:
    """Described above."""
    # The tuple's own constructor: the generated one costs twice as much, once a record.
    return tuple.__new__(RecordMetadata, (topic, partition, offset, timestamp_ms, key_size, value_size))
