"""Chooses the form of the byte kernel: compiled, or its Python twin; everybody else imports the kernel from here.

Owns the choice only. Both forms have the same names and give the same bytes. Compiled modules may also
`cimport RecordBatchBuilder` from `aiokafkapy.record._kernel`, which is the class that is found here when they run.

Kafka's counterpart of the builder is `MemoryRecordsBuilder`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _form
from ._encoding_py import Buffer
from ._kernel_py import BATCH_HEADER_SIZE, RecordTuple

if TYPE_CHECKING:
    from ._kernel_py import RecordBatchBuilder, decode_records, murmur2, plain_sizes, record_size_upper_bound
elif _form.compiled:
    from ._kernel import RecordBatchBuilder, decode_records, murmur2, plain_sizes, record_size_upper_bound
else:
    from ._kernel_py import RecordBatchBuilder, decode_records, murmur2, plain_sizes, record_size_upper_bound

__all__ = [
    "BATCH_HEADER_SIZE",
    "Buffer",
    "RecordBatchBuilder",
    "RecordTuple",
    "decode_records",
    "murmur2",
    "plain_sizes",
    "record_size_upper_bound",
]
