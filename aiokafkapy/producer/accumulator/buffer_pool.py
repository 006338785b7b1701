"""``BufferPool``: counts the bytes of ``buffer_memory`` that are held, and has the bound in records beside it.

It counts and hands out no buffers: a batch's memory grows as it fills and is freed when the batch is done. It knows no
batches and no waiters; those are the accumulator's (``record_appender``), and records are counted by its accounts.
Kafka's counterpart has the same name, and no bound in records; librdkafka's queue has both.

Rules:

- ``held`` never exceeds ``limit``, except by ``charge()``, which counts memory that is in use already (the pieces of a
  batch that a broker found too large); nothing is acquired then until ``held`` is below again.
- ``reserve`` bytes are kept from new records, so that a pool full of records can still be compressed in threads. A
  single record may use all of it when nothing else is held.
- A share is kept for topics with priority, of the bytes and of the number: ``lend`` gives it, until ``take_back``.
"""

from __future__ import annotations

from typing import Final

__all__ = ["UNBOUNDED", "BufferPool"]

UNBOUNDED: Final = 1 << 62
"""More records than any producer ever has: stands for "no bound in records"."""


class BufferPool:
    """Counts bytes held against ``limit``; ``record_limit`` is how many records may have no outcome."""

    __slots__ = ("held", "kept_bytes", "kept_records", "limit", "record_limit", "reserve")

    def __init__(self, limit: int, reserve: int = 0, record_limit: int | None = None, *, kept_percent: int = 0) -> None:
        """``kept_percent`` of the bytes and of the number are kept for topics with priority."""
        self.limit = limit
        self.kept_bytes = limit * kept_percent // 100
        self.reserve = reserve + self.kept_bytes
        self.record_limit = UNBOUNDED if record_limit is None else record_limit
        # Rounded up, but one record of any topic must be possible.
        self.kept_records = 0 if record_limit is None else min(record_limit - 1, -(-record_limit * kept_percent // 100))
        self.record_limit -= self.kept_records
        self.held = 0

    @property
    def available(self) -> int:
        """Bytes that could be acquired, the reserve included; never negative."""
        return max(0, self.limit - self.held)

    def try_acquire(self, size: int) -> bool:
        """Take ``size`` bytes for records, all or none."""
        if self.held + size > self.limit - self.reserve and (self.held or size > self.limit):
            return False
        self.held += size
        return True

    def try_acquire_reserved(self, size: int) -> bool:
        """Take ``size`` bytes, from the reserve too, all or none."""
        if self.held + size > self.limit:
            return False
        self.held += size
        return True

    def charge(self, size: int) -> None:
        """Count ``size`` bytes that are in use already; negative when a batch shrank."""
        self.held += size

    def release(self, size: int) -> None:
        """Give ``size`` bytes back."""
        self.held -= size

    def lend(self) -> None:
        """Give the share that is kept for topics with priority."""
        self.reserve -= self.kept_bytes
        self.record_limit += self.kept_records

    def take_back(self) -> None:
        """Keep the share again; later acquisitions stay."""
        self.reserve += self.kept_bytes
        self.record_limit -= self.kept_records
