"""What every record asks for, in the shortest way that there is. Java has no counterpart.

- ``running_loop()``: the event loop that runs in this thread, or None. The answer is asyncio's own; the compiled form
  gives it without a system call: asyncio of Python 3.11 asks for the process id each time.
- ``record_metadata(topic, partition, offset, timestamp_ms, key_size, value_size)``: a ``RecordMetadata`` of these.

The compiled twin is ``_shortcuts.pyx``.
"""

from __future__ import annotations

from asyncio import _get_running_loop as running_loop
from typing import TYPE_CHECKING

from .. import _form
from .records import RecordMetadata

if _form.compiled and not TYPE_CHECKING:
    from ._shortcuts import record_metadata, running_loop
else:

    def record_metadata(
        topic: str, partition: int, offset: int, timestamp_ms: int, key_size: int, value_size: int
    ) -> RecordMetadata:
        """Described above."""
        # The tuple's own constructor: the generated one costs twice as much, once a record.
        return tuple.__new__(RecordMetadata, (topic, partition, offset, timestamp_ms, key_size, value_size))


__all__ = ["record_metadata", "running_loop"]
