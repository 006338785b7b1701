"""Spark's own Kafka connector, the peer of our data source: its jars, gathered once into the cache.

Owns the list of its jars. Its token provider is published nowhere, so ``token_provider.scala`` stands in for it,
compiled by the Scala compiler among PySpark's jars: nothing but a Java runtime is needed.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pyspark

from aiokafkapy.testing.kafka.jars import Artifact, KafkaUnavailableError, gather_jars

__all__ = ["CONNECTOR_VERSION", "connector_jars"]

CONNECTOR_VERSION = "4.2.0"
"""Its newest release; it runs on PySpark 4.2 and 4.3."""

_ARTIFACTS = (
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", CONNECTOR_VERSION),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.2"),
    Artifact("org.apache.commons", "commons-pool2", "2.13.1"),
)
_STAND_IN = Path(__file__).with_name("token_provider.scala")
_SPARK_JARS = Path(pyspark.__file__).parent / "jars"


def connector_jars() -> list[Path]:
    """The jars for ``spark.jars`` (separated by commas) and ``spark.driver.extraClassPath`` (by colons); fetched when
    they are not in the cache yet. Raises KafkaUnavailableError when they cannot be had.
    """
    path = gather_jars(
        f"spark-sql-kafka-{CONNECTOR_VERSION}",
        _ARTIFACTS,
        f"Spark's Kafka connector {CONNECTOR_VERSION}",
        with_dependencies=False,
        finish=_compile_stand_in,
    )
    return sorted(path.glob("*.jar"))


def _compile_stand_in(directory: Path) -> None:
    command = ["java", "-cp", f"{_SPARK_JARS}/*", "scala.tools.nsc.Main", "-usejavacp"]
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        made = Path(scratch, "token-provider-stand-in.jar")
        done = subprocess.run(
            [*command, "-d", str(made), str(_STAND_IN)], capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode != 0:
            raise KafkaUnavailableError(f"compiling {_STAND_IN.name}: {(done.stdout + done.stderr)[-2000:]}")
        made.rename(directory / made.name)


if __name__ == "__main__":
    print(*connector_jars(), sep="\n")
