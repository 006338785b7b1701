"""aiokafkapy.record.builder: one form of the kernel, and the same names in both."""

from __future__ import annotations

from types import ModuleType

import aiokafkapy
from aiokafkapy import _form
from aiokafkapy.record import _kernel_py, builder


def test_takes_the_form_that_runs() -> None:
    chosen = "aiokafkapy.record._kernel" if _form.compiled else "aiokafkapy.record._kernel_py"
    names = ("RecordBatchBuilder", "decode_records", "murmur2", "record_size_upper_bound")
    assert {getattr(builder, name).__module__ for name in names} == {chosen}
    assert aiokafkapy.__name__ == "aiokafkapy"


def test_both_forms_have_the_same_public_names(kernel: ModuleType) -> None:
    shared = set(builder.__all__) - {"BATCH_HEADER_SIZE", "Buffer", "RecordTuple"}
    assert all(hasattr(kernel, name) for name in shared)
    members = {name for name in dir(_kernel_py.RecordBatchBuilder) if not name.startswith("_")}
    assert members == {name for name in dir(kernel.RecordBatchBuilder) if not name.startswith("_")}
