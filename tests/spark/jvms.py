"""The JVMs of the tests' Sparks: their options, and an archive of Spark's classes as loaded (JEP 350).

Owns the settings that every Spark of the tests has, also those in programs that they start, and the archive. With it a
driver needs 6 seconds of CPU to start and to do a first job, 10 without. ``python -m tests.spark.jvms`` makes it, once
for an environment: 36 seconds of CPU. It lies in the environment, as the jars do that it was made from.

Spark's Python workers import PySpark from a zip file, whose modules Python compiles anew in each process: 0.6 of their
0.8 seconds of CPU until they can begin. So SPARK_HOME is a folder that has all of Spark but this file, and the workers
import the installed PySpark.

Rules: the archive fits one class path, of which Java takes an empty folder, but no other. So the settings are not in
Spark's folder for them, and the connector's jars are no part of the path. Without an archive, or with one that does not
fit, Java loads the classes as ever.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyspark

from aiokafkapy.testing.kafka.class_archive import archive_at, make_archive_at
from aiokafkapy.testing.kafka.jars import java_release

__all__ = ["archive_path", "environment"]

FOLDER: Final = Path(sys.prefix) / ".spark-classes" / pyspark.__version__
EMPTY: Final = FOLDER / "conf"
HOME: Final = FOLDER / "home"
TIMEOUT: Final = 600

# Half of the time of a short Spark program goes into compiling: Java's second compiler pays off later than these tests
# end, and so do classes generated for each query. A sixth goes into verifying Spark's own classes.
JAVA_OPTIONS: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
SETTINGS: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
}


def environment(scratch: Path, more: Sequence[str] | None = None) -> dict[str, str]:
    """Variables for every process that starts a Spark. ``scratch`` is for a file; ``more``: options in the archive's
    place.
    """
    archive = archive_at(archive_path()) if more is None else tuple(more)
    options = " ".join((*JAVA_OPTIONS, *archive))
    settings = SETTINGS | {"spark.driver.extraJavaOptions": options, "spark.executor.extraJavaOptions": options}
    properties = scratch / "spark.properties"
    properties.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    home = {"SPARK_HOME": str(HOME)} if HOME.exists() else {}
    return home | {
        "SPARK_CONF_DIR": str(EMPTY if EMPTY.exists() else scratch / "no-settings"),
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {properties} pyspark-shell",
        "SPARK_LAUNCHER_OPTS": " ".join(JAVA_OPTIONS),
        "SPARK_DAEMON_JAVA_OPTS": options,
    }


def archive_path() -> Path:
    """The archive's path, whether it exists or not: another Java, or other jars, need another one."""
    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
    made_from = [java_release(), *(f"{jar} {(about := jar.stat()).st_size} {about.st_mtime_ns}" for jar in jars)]
    return FOLDER / f"{hashlib.sha256(repr(made_from).encode()).hexdigest()[:16]}.jsa"


def _make() -> None:
    EMPTY.mkdir(parents=True, exist_ok=True)
    HOME.mkdir(exist_ok=True)
    for part in ("bin", "jars", "sbin"):
        place = HOME / part
        place.unlink(missing_ok=True)
        place.symlink_to(Path(pyspark.__file__).parent / part)
    archive = archive_path()

    def run(options: Sequence[str]) -> None:
        for old in (*FOLDER.glob("*.jsa"), *FOLDER.glob("*.part-*")):
            old.unlink()
        with tempfile.TemporaryDirectory() as scratch:
            given = os.environ | environment(Path(scratch), options)
            command = [sys.executable, "-m", __spec__.name, scratch]
            subprocess.run(command, env=given, stdout=subprocess.DEVNULL, timeout=TIMEOUT, check=True)

    make_archive_at(archive, run)
    print(archive)


def _work(scratch: Path) -> None:
    """A bit of all that the tests do, so that its classes are in the archive."""
    from tests.spark.conftest import SESSION, Broker, LoopThread, start_session, stop_session

    with contextlib.closing(LoopThread()) as thread, contextlib.closing(Broker(thread)) as broker:
        session = start_session(scratch, SESSION)
        servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        source = {**servers, "subscribe": "in", "startingOffsets": "earliest"}
        rows = session.range(0, 100, 1, 2).selectExpr("cast(id as string) as value")
        mapped = rows.mapInArrow(lambda batches: batches, rows.schema)
        mapped.write.format("aiokafkapy").options(**servers, topic="in").mode("append").save()
        read = session.read.format("aiokafkapy").options(**source).load()
        assert read.groupBy("key").count().collect()[0]["count"] == 100
        stream = session.readStream.format("aiokafkapy").options(**source).load().writeStream.format("aiokafkapy")
        stream = stream.options(**servers, topic="out", checkpointLocation=str(scratch / "checkpoint"))
        assert stream.trigger(availableNow=True).start().awaitTermination(TIMEOUT)
        assert len(broker.records("out")) == 100
        stop_session(session, TIMEOUT)  # it writes the archive in the end


if __name__ == "__main__":
    if sys.argv[1:]:
        _work(Path(sys.argv[1]))
    else:
        _make()
