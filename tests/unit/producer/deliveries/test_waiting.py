"""aiokafkapy.producer.deliveries.waiting: batches fill, leave and settle in a process that has no asyncio."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from aiokafkapy._form import INTERPRETED_VARIABLE

WITHOUT_ASYNCIO = """
import sys
before = set(sys.modules)
for name in ("asyncio", "socket", "selectors", "threading", "uvloop", "logging"):
    assert name not in before, name
    sys.modules[name] = None  # importing it fails

from types import SimpleNamespace
from aiokafkapy.cluster.cluster import Cluster, TopicMetadata
from aiokafkapy.common import Node, PartitionInfo
from aiokafkapy.errors import IllegalStateError, KafkaError
from aiokafkapy.producer.accumulator.record_accumulator import RecordAccumulator

accumulator = RecordAccumulator(SimpleNamespace(
    batch_size=200, bulk_batch_size=200, buffer_memory=100_000, compression=0, compression_level=None,
    chooses_codecs=False, linger_ms=0, delivery_timeout_ms=1_000,
    max_request_size=100_000, partitioner_adaptive_partitioning_enable=True, partitioner_availability_timeout_ms=0,
    retry_backoff_max_ms=100, retry_backoff_ms=10, buffer_records=None, overflow="wait", drops_oldest=False,
    manual_flush=False, topics={}, priority_topics=(), priority_reserve_percent=10,
))
cluster = Cluster([Node(1, "h", 1)], {"t": TopicMetadata("t", [PartitionInfo("t", 0, 1, 1)])})
deliveries = [accumulator.appender.append("t", -1, 5, b"k", bytes(50), None, 0.0, cluster) for _ in range(4)]
try:
    deliveries[0].result()
except IllegalStateError:
    pass
else:
    raise AssertionError("a record on its way has a result")
try:
    deliveries[0].__await__().send(None)
except RuntimeError as error:
    assert str(error) == "no running event loop", error
settled = []
flush = accumulator.begin_flush(lambda: settled.append(True))
assert accumulator.ready(cluster, 0.0, {}).ready_nodes == {1}
first, = accumulator.drain(cluster, [1], 100_000, 0.0)[1]
first.complete(10)
accumulator.deallocate(first)
second, = accumulator.drain(cluster, [1], 100_000, 0.0)[1]
second.fail(KafkaError("no"))
accumulator.deallocate(second)
assert settled == [True]
assert [delivery.result().offset for delivery in deliveries if delivery.exception() is None][:1] == [10]
assert str(deliveries[-1].exception()) == "no"
assert accumulator.accepted == accumulator.delivered + accumulator.failed == 4
"""


@pytest.mark.parametrize("form", ["", "1"], ids=["as it is", "interpreted"])
def test_an_accumulator_needs_neither_an_event_loop_nor_asyncio(form: str) -> None:
    path = repr([entry for entry in sys.path if entry])
    # Without ``site``, whose path files may import any module.
    program = f"import sys\nsys.path[:] = {path}\n{WITHOUT_ASYNCIO}"
    environment = os.environ | {INTERPRETED_VARIABLE: form}
    subprocess.run([sys.executable, "-S", "-c", program], check=True, env=environment, timeout=60)
