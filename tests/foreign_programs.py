"""Clients of other languages, which their own tools fetch and build: kafkajs, franz-go, rdkafka, Kafka Connect with
Debezium.

They are kept in the cache that Kafka's jars are in. Where a tool is missing the tests are skipped, or fail with
AIOKAFKAPY_REQUIRE_CLIENTS=1. ``python -m tests.foreign_programs`` gets the quick ones; with ``--build`` also
rdkafka's program, for which librdkafka is compiled: a minute of a processor, once.
"""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import pytest

from aiokafkapy.testing import KafkaTools, KafkaUnavailableError
from aiokafkapy.testing.kafka.jars import Artifact, cache_directory, gather_jars
from aiokafkapy.testing.servers.file_lock import locked
from tests.java_sources import compiled

__all__ = ["SOURCES", "connect_program", "franz_go_program", "kafkajs_modules", "rdkafka_program", "unavailable"]

SOURCES: Final = Path(__file__).parent / "system"
REQUIRED: Final = "AIOKAFKAPY_REQUIRE_CLIENTS"
DEBEZIUM: Final = "3.3.1.Final"
KAFKA_CONNECT: Final = "4.1.0"
KAFKAJS: Final = "kafkajs-2.2.4"


def unavailable(reason: str) -> NoReturn:
    """Skip the test, or fail it where the client must be there."""
    if os.environ.get(REQUIRED) == "1":
        pytest.fail(f"the client is required here: {reason}", pytrace=False)
    pytest.skip(reason)


def kafkajs_modules() -> Path:
    """The directory of modules with kafkajs in it, for NODE_PATH."""
    npm = shutil.which("npm")
    if shutil.which("node") is None or npm is None:
        unavailable("NO NODE: kafkajs needs it, and npm")
    path = cache_directory() / KAFKAJS
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(path.name + ".lock")):
        if not path.is_dir():
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.part-") as scratch:
                for name in ("package.json", "package-lock.json"):
                    shutil.copy(SOURCES / "kafkajs" / name, scratch)
                failure = _failure([npm, "ci", "--no-audit", "--no-fund"], Path(scratch), timeout=120)
                if failure is not None:
                    unavailable(f"kafkajs cannot be had: {failure}")
                Path(scratch, "node_modules").rename(path)
    return path


def rdkafka_program(*, build: bool = os.environ.get(REQUIRED) == "1") -> Path:
    """The compiled program. It is only compiled again if it was compiled before, or with ``build``."""
    cargo = shutil.which("cargo")
    if cargo is None:
        unavailable("NO CARGO: rdkafka needs it")
    target = cache_directory() / "rdkafka-clients"
    program = target / "debug" / "rdkafka-clients"
    if not build and not program.exists():
        unavailable("NO RDKAFKA: `python -m tests.foreign_programs --build` compiles it, in a minute")
    # From a copy: cargo writes the versions that it has chosen beside the sources.
    sources = target / "sources"
    shutil.copytree(SOURCES / "rdkafka", sources, dirs_exist_ok=True)
    # Without optimizations librdkafka takes half of the time.
    environment = {"CARGO_TARGET_DIR": str(target), "CFLAGS": "-O0", "CXXFLAGS": "-O0"}
    failure = _failure([cargo, "build", "--quiet"], sources, timeout=900, **environment)
    if failure is not None:
        unavailable(f"rdkafka cannot be had: {failure}")
    return program


def franz_go_program() -> Path:
    """The compiled program: half a minute of a processor the first time on a machine, and a second from then on."""
    go = shutil.which("go")
    if go is None:
        unavailable("NO GO: franz-go needs it")
    sources, program = SOURCES / "franz_go", cache_directory() / "franz-go-clients" / "copier"
    environment = {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    program.parent.mkdir(parents=True, exist_ok=True)
    with locked(program.with_name("copier.lock")):
        failure = _failure([go, "mod", "download"], sources, timeout=120, **environment)
        if failure is not None:
            unavailable(f"franz-go cannot be had: {failure}")
        # Without optimizations it takes half of the time. Go links it again only when something has changed.
        command = [go, "build", "-gcflags=all=-N -l", "-o", str(program), "."]
        subprocess.run(command, cwd=sources, env=os.environ | environment, timeout=300, check=True)
    return program


def connect_program(*names: str) -> KafkaTools:
    """Java programs of ``system/connect``, compiled, with Kafka Connect and Debezium's engine."""
    try:
        jars = _connect_jars()
        classes = [str(compiled(SOURCES / "connect" / f"{name}.java", jars)) for name in names]
        tools = copy.copy(KafkaTools())
    except KafkaUnavailableError as error:
        unavailable(f"NO KAFKA CONNECT: {error}")
    tools.classpath = os.pathsep.join([str(jars / "*"), *classes])
    tools.archive = ()
    return tools


def _connect_jars() -> Path:
    artifacts = [
        Artifact("io.debezium", "debezium-embedded", DEBEZIUM),
        Artifact("io.debezium", "debezium-connector-postgres", DEBEZIUM),
        Artifact("org.apache.kafka", "connect-runtime", KAFKA_CONNECT),
        Artifact("org.apache.kafka", "connect-file", KAFKA_CONNECT),
        Artifact("org.slf4j", "slf4j-simple", "1.7.36"),
    ]
    return gather_jars(f"debezium-{DEBEZIUM}", artifacts, f"Kafka Connect and Debezium {DEBEZIUM}")


def _failure(command: list[str], directory: Path, timeout: float, **environment: str) -> str | None:
    """The end of the words of a command that failed."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return str(error)
    return None if done.returncode == 0 else (done.stdout + done.stderr).strip()[-300:]


def _main(*, build: bool) -> None:
    wanted: list[Callable[[], Path]] = [kafkajs_modules, franz_go_program, _connect_jars]
    if build:
        wanted.append(lambda: rdkafka_program(build=True))
    for get in wanted:
        try:
            print(get())
        except (KafkaUnavailableError, pytest.skip.Exception, pytest.fail.Exception) as error:
            print(error)


if __name__ == "__main__":
    _main(build="--build" in sys.argv[1:])
