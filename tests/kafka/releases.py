"""The table of the API versions that each release of Kafka advertises, made from its own jars: ``python -m
tests.kafka.releases``.

Writes ``aiokafkapy/broker/emulation/releases.json``. ``ReleaseRanges.java`` asks each release's ``ApiKeys`` for the
APIs of a broker with their stable versions, and from 3.3 on its features. A new release is one line in ``JARS``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import aiokafkapy.broker.emulation
from aiokafkapy.testing.kafka.jars import Artifact, gather_jars
from aiokafkapy.testing.kafka.tools import QUICK_JVM
from tests.java_sources import compiled

__all__ = ["JARS", "SOURCE", "Advertised", "advertised_by", "minor_release"]

TABLE: Final = Path(aiokafkapy.broker.emulation.__file__).with_name("releases.json")
SOURCE: Final = Path(__file__).with_name("ReleaseRanges.java")

JARS: Final = (
    *("0.11.0.3", "1.0.2", "1.1.1"),
    *("2.0.1", "2.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2"),
    *("3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1"),
    *("4.0.0", "4.1.0"),
)
"""The jars that the table is made from, one for each minor release."""

KRAFT_FROM: Final = (3, 3)
"""KRaft is for production since 3.3 (KIP-833); brokers of before have ZooKeeper."""

_DYNAMIC_QUORUM: Final = "kraft.version"
"""Its level says how the quorum of controllers was formed; with a static one, the usual one, it is 0."""


class Advertised(NamedTuple):
    """One release: ``(lowest, highest)`` by API key, names by API key, ``(lowest, highest, default)`` by feature."""

    apis: dict[int, tuple[int, int]]
    names: dict[int, str]
    features: dict[str, tuple[int, int, int]]


def minor_release(jar: str) -> str:
    """``3.9`` of ``3.9.1``, and ``0.11`` of ``0.11.0.3``."""
    return ".".join(jar.split(".")[:2])


def advertised_by(jar: str, jars: Path, classes: Path) -> Advertised:
    """Ask the jars of a directory; ``classes`` has the compiled program."""
    is_kraft = tuple(map(int, minor_release(jar).split("."))) >= KRAFT_FROM
    command = ["java", *QUICK_JVM, "-cp", f"{jars}/*:{classes}", SOURCE.stem, "BROKER" if is_kraft else "ZK_BROKER"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{jar}: {done.stderr}")
    found = Advertised({}, {}, {})
    for line in done.stdout.splitlines():
        kind, name, *rest = line.split()
        if kind == "api":
            found.names[int(name)], found.apis[int(name)] = rest[0], (int(rest[1]), int(rest[2]))
        else:
            lowest, highest, level = map(int, rest)
            found.features[name] = (lowest, highest, 0 if name == _DYNAMIC_QUORUM else level)
    return found


def fetched(jar: str) -> Path:
    """The directory with a release's jars that the program needs, fetched once."""
    names = ["kafka-clients"]
    if tuple(map(int, minor_release(jar).split("."))) >= KRAFT_FROM:
        names.append("kafka-server-common")
    artifacts = [Artifact("org.apache.kafka", name, jar) for name in names]
    artifacts.append(Artifact("org.slf4j", "slf4j-api", "1.7.36"))
    return gather_jars(f"kafka-ranges-{jar}", artifacts, f"Kafka {jar}'s clients", with_dependencies=False)


def table(found: Mapping[str, Advertised]) -> dict[str, object]:
    """The table as it is kept: an API's line has each release that changed its range."""
    names = {key: name for each in found.values() for key, name in each.names.items()}
    features = sorted({name for each in found.values() for name in each.features})
    by_release = {minor_release(jar): each for jar, each in found.items()}
    apis = {
        f"{key} {names[key]}": _changes((release, each.apis.get(key)) for release, each in by_release.items())
        for key in sorted(names)
    }
    return {
        "releases": {minor_release(jar): jar for jar in found},
        "apis": apis,
        "features": {
            name: _changes((release, each.features.get(name)) for release, each in by_release.items())
            for name in features
        },
    }


def _changes(ranges: Iterable[tuple[str, tuple[int, ...] | None]]) -> str:
    """Such as ``0.11 0-3, 1.0 0-5``; ``-`` where it is gone, and a third number is a feature's level."""
    told: list[str] = []
    last: tuple[int, ...] | None = None
    for release, versions in ranges:
        if versions != last:
            told.append(f"{release} {'-' if versions is None else '-'.join(map(str, versions))}")
        last = versions
    return ", ".join(told)


def main() -> None:
    """Write the table."""
    classes = compiled(SOURCE)
    found = {jar: advertised_by(jar, fetched(jar), classes) for jar in JARS}
    TABLE.write_text(json.dumps(table(found), indent=1) + "\n")
    print(f"{TABLE}: {len(found)} releases, {TABLE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
