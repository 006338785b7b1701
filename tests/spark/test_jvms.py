"""The JVMs of the tests' Sparks take their settings and the archive of classes from the environment."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from . import jvms


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "of-this-java.jsa"
    monkeypatch.setattr(jvms, "archive_path", lambda: path)
    return path


def properties_of(environment: dict[str, str]) -> dict[str, str]:
    option, path, program = environment["PYSPARK_SUBMIT_ARGS"].split()
    assert (option, program) == ("--properties-file", "pyspark-shell")
    return dict(line.split(" ", 1) for line in Path(path).read_text().splitlines())


def test_an_archive_that_is_there_is_used_by_drivers_executors_and_daemons(archive: Path, tmp_path: Path) -> None:
    archive.touch()
    environment = jvms.environment(tmp_path)
    properties = properties_of(environment)
    used = f"-XX:SharedArchiveFile={archive}"
    for options in (
        properties["spark.driver.extraJavaOptions"],
        properties["spark.executor.extraJavaOptions"],
        environment["SPARK_DAEMON_JAVA_OPTS"],
    ):
        assert used in options.split()
    # The launcher's class path is another one.
    assert used not in environment["SPARK_LAUNCHER_OPTS"]


def test_without_one_the_settings_are_as_ever(archive: Path, tmp_path: Path) -> None:
    properties = properties_of(jvms.environment(tmp_path))
    assert properties["spark.driver.extraJavaOptions"] == " ".join(jvms.JAVA_OPTIONS)
    assert properties.items() >= jvms.SETTINGS.items()


def test_the_folder_for_settings_in_the_class_path_is_empty(tmp_path: Path) -> None:
    """Java takes no archive where a folder of the class path has files."""
    folder = Path(jvms.environment(tmp_path)["SPARK_CONF_DIR"])
    assert not folder.exists() or not list(folder.iterdir())


def test_jars_of_another_size_need_another_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "__init__.py"))
    jar = tmp_path / "jars" / "spark.jar"
    jar.parent.mkdir()
    jar.write_bytes(b"1")
    before = jvms.archive_path()
    assert jvms.archive_path() == before
    jar.write_bytes(b"12")
    assert jvms.archive_path() != before
