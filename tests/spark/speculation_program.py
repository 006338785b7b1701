"""Run by ``test_write``: a job with speculation on, and a stream with ``exactlyOnce``.

Spark runs a task a second time only on another host: so this starts a cluster of two, which are two addresses of this
machine. The first attempt of the last partition stops until a second one has begun. Arguments: bootstrap servers,
topic, number of rows, and a folder for Spark and for the tasks' messages. The stream writes the same rows
to another topic, whose name ends with ``-once``. Prints how many attempts that partition had, of each.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
from pyspark import TaskContext
from pyspark.sql import DataFrame

from aiokafkapy.testing.servers.ports import free_port
from tests.spark.conftest import SESSION, start_session, stop_session

PARTITIONS = 3
PATIENCE = 120


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and two workers with one core each; gives the master's address."""
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_WORKER_DIR": str(folder / "work"),
    }
    port = free_port()

    def start(kind: str, host: str, *arguments: str) -> subprocess.Popen[bytes]:
        name = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        command = [str(home / "bin" / "spark-class"), name, "--host", host, "--webui-port", "0", *arguments]
        return subprocess.Popen(command, env=environment, stdout=sys.stderr)

    started = [start("Master", "127.0.0.1", "--port", str(port))]
    try:
        wait_for(port)
        master = f"spark://127.0.0.1:{port}"
        hosts = ("127.0.0.1", "127.0.0.2")
        started += [start("Worker", host, "--cores", "1", "--memory", "600m", master) for host in hosts]
        yield master
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(60)


def wait_for(port: int) -> None:
    """Wait until a program listens at the port."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def main(master: str, bootstrap_servers: str, topic: str, rows: int, folder: Path) -> None:
    """Write numbers, as text."""
    settings = SESSION | {
        "spark.master": master,
        "spark.executor.memory": "512m",
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.1",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.minTaskRuntime": "50ms",
    }
    session = start_session(folder, settings)
    servers = {"kafka.bootstrap.servers": bootstrap_servers}
    try:
        rows_of_batch = session.range(0, rows, 1, PARTITIONS)
        frame = held_up(rows_of_batch.selectExpr("cast(id as string) as value"), folder / "batch")
        frame.write.format("aiokafkapy").options(**servers, topic=topic).mode("append").save()
        source = session.readStream.format("rate-micro-batch").options(rowsPerBatch=rows, numPartitions=PARTITIONS)
        stream = held_up(source.load().selectExpr("cast(value as string) as value"), folder / "stream")
        writer = stream.writeStream.format("aiokafkapy").options(**servers, topic=f"{topic}-once", exactlyOnce="true")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
        assert writer.start().awaitTermination(PATIENCE)
    finally:
        stop_session(session)
    for name in ("batch", "stream"):
        print(f"attempts of the {name}:", len(list((folder / name).glob("attempt-*"))))


def held_up(frame: DataFrame, folder: Path) -> DataFrame:
    """The same rows; the first attempt of the last partition stops in their middle until there is a second one."""
    folder.mkdir()

    def held(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        is_last = context.partitionId() == PARTITIONS - 1
        if is_last:
            (folder / f"attempt-{context.attemptNumber()}").touch()
        for number, batch in enumerate(batches):
            deadline = time.monotonic() + PATIENCE
            while number == 1 and is_last and not (folder / "attempt-1").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            yield batch

    return frame.mapInArrow(held, frame.schema)


if __name__ == "__main__":
    with cluster(Path(sys.argv[4])) as address:
        main(address, sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
