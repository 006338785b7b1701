import shutil
import subprocess
from pathlib import Path

import pytest

from aiokafkapy.testing import ApacheKafka
from aiokafkapy.testing.kafka import jars
from aiokafkapy.testing.kafka.jars import (
    Artifact,
    KafkaUnavailableError,
    cache_directory,
    fetch_jars,
    gather_jars,
    unavailable_reason,
)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIOKAFKAPY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "java_version", lambda: 17)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were run, each of which "fetched" Kafka's jar."""
    seen: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        seen.append(command)
        for argument in command:
            if argument.startswith("-DoutputDirectory="):
                for name in ("kafka_2.13-4.1.0.jar", "slf4j-simple-1.7.36.jar", "slf4j-reload4j-1.7.36.jar"):
                    Path(argument.partition("=")[2], name).touch()
            if argument.endswith("[artifact]-[revision].[ext]"):
                Path(argument).with_name("kafka_2.13-4.1.0.jar").touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return seen


def _no_maven(monkeypatch: pytest.MonkeyPatch, ivy: Path | None = None) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(jars, "_ivy_jar", lambda: ivy)


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_directory() == tmp_path / "cache"
    monkeypatch.delenv("AIOKAFKAPY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "aiokafkapy"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_directory() == Path.home() / ".cache" / "aiokafkapy"


def test_jars_are_fetched_once(monkeypatch: pytest.MonkeyPatch, commands: list[list[str]]) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    path = fetch_jars()
    # Kafka 3.9 brings a second logging back end, and with both it is left to chance which is used.
    assert sorted(jar.name for jar in path.iterdir()) == ["kafka_2.13-4.1.0.jar", "slf4j-simple-1.7.36.jar"]
    assert fetch_jars() == path
    assert [command[0] for command in commands] == ["mvn"]
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["kafka-4.1.0", "kafka-4.1.0.lock"]


def test_ivy_is_used_where_there_is_no_maven(monkeypatch: pytest.MonkeyPatch, commands: list[list[str]]) -> None:
    _no_maven(monkeypatch, Path("ivy.jar"))
    assert (fetch_jars() / "kafka_2.13-4.1.0.jar").exists()
    assert [command[:3] for command in commands] == [["java", "-jar", "ivy.jar"]]


@pytest.mark.parametrize("tool", ["maven", "ivy"])
def test_dependencies_may_be_left_out_and_a_jar_added(
    monkeypatch: pytest.MonkeyPatch, commands: list[list[str]], tool: str
) -> None:
    said = []

    def finish(directory: Path) -> None:
        (described,) = [path for path in directory.parent.iterdir() if path.suffix == ".xml"]
        said.append(described.read_text())
        (directory / "added.jar").touch()

    if tool == "ivy":
        _no_maven(monkeypatch, Path("ivy.jar"))
    else:
        monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    artifacts = [Artifact("org.apache.kafka", "kafka_2.13", "4.1.0")]
    path = gather_jars("one", artifacts, "one", with_dependencies=False, finish=finish)
    assert {"added.jar", "kafka_2.13-4.1.0.jar"} <= {entry.name for entry in path.iterdir()}
    assert ("<exclusion>" in said[0]) if tool == "maven" else ('transitive="false"' in said[0])


def test_a_failed_fetch_says_why_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    failed = subprocess.CompletedProcess([], 1, "", "[ERROR] no such artifact")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(KafkaUnavailableError, match=r"(?s)mvn ended with 1.*no such artifact"):
        fetch_jars()
    assert [entry.name for entry in cache_directory().iterdir()] == ["kafka-4.1.0.lock"]


def test_the_error_names_the_missing_part(monkeypatch: pytest.MonkeyPatch) -> None:
    _no_maven(monkeypatch)
    assert "neither Maven" in str(unavailable_reason())
    with pytest.raises(KafkaUnavailableError, match="neither Maven"):
        fetch_jars()
    monkeypatch.setattr(jars, "java_version", lambda: 11)
    assert unavailable_reason() == "Java 11 is too old: Kafka needs 17"
    monkeypatch.setattr(jars, "java_version", lambda: None)
    assert unavailable_reason() == "there is no `java` on the path"
    assert ApacheKafka.available() is False


def test_jars_in_the_cache_need_neither_maven_nor_ivy(monkeypatch: pytest.MonkeyPatch) -> None:
    _no_maven(monkeypatch)
    (cache_directory() / "kafka-4.1.0").mkdir(parents=True)
    assert unavailable_reason() is None
    assert fetch_jars() == cache_directory() / "kafka-4.1.0"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("command not found", None),
    ],
)
def test_the_version_of_java_is_read(monkeypatch: pytest.MonkeyPatch, said: str, version: int | None) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/java")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, stdout="", stderr=said))
    monkeypatch.setattr(jars, "java_release", jars.java_release.__wrapped__)
    assert jars.java_version() == version
