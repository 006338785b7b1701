from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, sys
from aiokafkapy.spark import daemon
daemon.preload()
loaded = set(sys.modules)
from aiokafkapy.spark.sink.writer import KafkaWriter
from aiokafkapy.spark.source.reader import KafkaReader
from aiokafkapy.producer.producer import KafkaProducer
from aiokafkapy.reader.partition_reader import PartitionReader
from aiokafkapy.protocol import entities, reader
late = sorted(name for name in set(sys.modules) - loaded if name.startswith(("aiokafkapy", "kio", "pydantic")))
print(json.dumps({"loaded": sorted(loaded), "late": late, "threads": len(os.listdir("/proc/self/task"))}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_modules_loaded_before_a_fork_are_those_of_tasks_and_start_no_thread() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["threads"] == 1
    assert not {"numpy", "pandas", "pyarrow"} & set(found["loaded"])
    assert found["late"] == []


@pytest.mark.slow
def test_the_daemon_is_started_as_sparks_own() -> None:
    """Spark closes a daemon's input to end it; the first thing a daemon says is its port."""
    done = subprocess.run(
        [sys.executable, "-m", "aiokafkapy.spark.daemon", "pyspark.worker"],
        input=b"",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert int.from_bytes(done.stdout[:4], "big") > 1023, done.stderr
    assert len(done.stdout) == 4
