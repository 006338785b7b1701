"""Apache Kafka's jars for ``ApacheKafka``, fetched once into a cache. ``gather_jars`` fetches others the same way.

Owns the place of the jars and the way to fetch them: with Maven if it is installed, else with the Ivy that PySpark
ships. Both read their own settings, so a mirror configured for them is used here too. Knows nothing of brokers.

Rules: a directory in the cache is complete or absent. Jars are fetched into a directory beside it, which is then
renamed under a file lock, so test runs may do it in parallel. No jar is fetched if the directory exists. The cache is
``AIOKAFKAPY_CACHE``, or ``aiokafkapy`` in ``XDG_CACHE_HOME``, or ``~/.cache/aiokafkapy``.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..servers.file_lock import locked

__all__ = [
    "DEFAULT_VERSION",
    "Artifact",
    "KafkaUnavailableError",
    "cache_directory",
    "fetch_jars",
    "gather_jars",
    "java_release",
    "unavailable_reason",
]

DEFAULT_VERSION = "4.1.0"

# Kafka 4 needs Java 17 (KIP-1013); 3.9 would run on 11, but one rule is simpler.
MINIMUM_JAVA = 17
FETCH_TIMEOUT = 900.0


class Artifact(NamedTuple):
    """The Maven coordinates of a jar."""

    group: str
    name: str
    version: str


class KafkaUnavailableError(RuntimeError):
    """A real Kafka cannot be run here; the message names the missing part."""


def cache_directory() -> Path:
    """The directory for fetched jars, which need not exist yet."""
    if chosen := os.environ.get("AIOKAFKAPY_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "aiokafkapy"


def unavailable_reason(version: str = DEFAULT_VERSION) -> str | None:
    """The reason why this version of Kafka cannot be run here, or None if no missing part is known."""
    java = java_version()
    if java is None:
        return "there is no `java` on the path"
    if java < MINIMUM_JAVA:
        return f"Java {java} is too old: Kafka needs {MINIMUM_JAVA}"
    if _jars_path(version).is_dir() or shutil.which("mvn") or _ivy_jar():
        return None
    return "its jars are not in the cache, and neither Maven (`mvn`) nor PySpark (for its Ivy) is there to fetch them"


@functools.cache
def java_release() -> str:
    """The release of the ``java`` on the path, such as 17.0.9; empty if none runs."""
    java = shutil.which("java")
    if java is None:
        return ""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r'version "([^"]+)', said.stderr + said.stdout)
    return found[1] if found else ""


def java_version() -> int | None:
    """The major version of the ``java`` on the path, or None if none runs."""
    found = re.match(r"(?:1\.)?(\d+)", java_release())
    return int(found[1]) if found else None


def fetch_jars(version: str = DEFAULT_VERSION) -> Path:
    """The directory with the jars of ``version``, fetched if it does not exist yet; blocks meanwhile.

    Raises KafkaUnavailableError if they cannot be obtained.
    """
    path = _jars_path(version)
    if not path.is_dir() and (reason := unavailable_reason(version)):
        raise KafkaUnavailableError(f"Apache Kafka {version} cannot be run: {reason}")
    artifacts = [
        Artifact("org.apache.kafka", "kafka_2.13", version),
        Artifact("org.apache.kafka", "kafka-tools", version),
        # Kafka 4's published dependencies have no logging back end: without one a node that dies logs nothing.
        Artifact("org.slf4j", "slf4j-simple", "1.7.36"),
    ]
    return gather_jars(path.name, artifacts, f"Apache Kafka {version}", finish=_leave_one_logging_back_end)


def gather_jars(
    directory: str,
    artifacts: Sequence[Artifact],
    title: str,
    *,
    with_dependencies: bool = True,
    finish: Callable[[Path], None] | None = None,
) -> Path:
    """The directory of this name in the cache, with the jars of ``artifacts``; fetched if it does not exist yet.

    ``finish`` may add to them before the directory is used. Raises KafkaUnavailableError, which names ``title``, if
    they cannot be obtained.
    """
    path = cache_directory() / directory
    if path.is_dir():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # On Windows two fetches at once do the work twice, and the rename decides.
    with locked(path.with_name(path.name + ".lock")):
        if path.is_dir():  # another process fetched them while we waited
            return path
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.part-") as scratch:
            gathered = Path(scratch, "jars")
            gathered.mkdir()
            command = _maven if shutil.which("mvn") else _ivy
            words = command(artifacts, with_dependencies=with_dependencies, scratch=Path(scratch), target=gathered)
            _run(words, title)
            first = f"{artifacts[0].name}-{artifacts[0].version}.jar"
            if not (gathered / first).exists():
                raise KafkaUnavailableError(f"{title}: the jars were fetched, but {first} is not there")
            if finish is not None:
                finish(gathered)
            gathered.rename(path)
    return path


def _leave_one_logging_back_end(directory: Path) -> None:
    """Remove the other logging back end that Kafka 3.9's tools bring: Java may find that one, which is silent without
    its own file.
    """
    for jar in directory.glob("slf4j-reload4j-*.jar"):
        jar.unlink()


def _jars_path(version: str) -> Path:
    return cache_directory() / f"kafka-{version}"


def _maven(artifacts: Sequence[Artifact], *, with_dependencies: bool, scratch: Path, target: Path) -> list[str]:
    # A dependency that is excluded here is not even resolved: some are not published anywhere.
    none = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    excluded = "" if with_dependencies else f"<exclusions>{none}</exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"{excluded}</dependency>"
        for group, name, version in artifacts
    )
    pom = scratch / "pom.xml"
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>none</groupId><artifactId>none</artifactId>"
        f"<version>1</version><dependencies>{dependencies}</dependencies></project>"
    )
    command = ["mvn", "--batch-mode", "--quiet", "-f", str(pom), "dependency:copy-dependencies"]
    return [*command, "-DincludeScope=runtime", f"-DoutputDirectory={target}"]


def _ivy(artifacts: Sequence[Artifact], *, with_dependencies: bool, scratch: Path, target: Path) -> list[str]:
    transitive = str(with_dependencies).lower()
    dependencies = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" conf="default->default" transitive="{transitive}"/>'
        for group, name, version in artifacts
    )
    ivy = scratch / "ivy.xml"
    ivy.write_text(
        '<ivy-module version="2.0"><info organisation="none" module="none"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    command = ["java", "-jar", str(_ivy_jar()), "-ivy", str(ivy), "-confs", "default", "-types", "jar", "bundle"]
    return [*command, "-retrieve", f"{target}/[artifact]-[revision].[ext]"]


def _run(command: list[str], title: str) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KafkaUnavailableError(f"fetching the jars of {title}: {error}") from error
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise KafkaUnavailableError(f"fetching the jars of {title}: {command[0]} ended with {done.returncode}:\n{tail}")


def _ivy_jar() -> Path | None:
    """The Ivy jar of an installed PySpark, or None."""
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        return None
    return next(iter(sorted(Path(pyspark.origin).parent.glob("jars/ivy-*.jar"))), None)
