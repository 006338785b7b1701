"""Kafka's own Java command-line tools, run from the fetched jars against any broker, real or ours.

They check our bytes on the wire independently: the console consumer, ``ProducerPerformance``, ``DumpLogSegments``.
This module runs a tool to its end and knows nothing of its work. Kafka's counterpart is ``bin/kafka-run-class.sh``.

Rule: a tool ends with its caller, whether that returns, is cancelled or is killed with -9.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Mapping, Sequence

from ..servers.watchdog import Watchdog
from .class_archive import archive_options
from .jars import DEFAULT_VERSION, fetch_jars

__all__ = ["QUICK_JVM", "KafkaToolError", "KafkaTools"]

# A test's JVM is short-lived: start-up time matters more than peak speed.
QUICK_JVM = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Xshare:auto",
    "-Djava.awt.headless=true",
)


class KafkaToolError(RuntimeError):
    """A Java tool ended with an error or not at all; the message has the end of its output."""


class KafkaTools:
    """The Java tools of one version of Kafka; the constructor fetches the jars if needed, and blocks meanwhile.

    Raises KafkaUnavailableError without Java, or if the jars cannot be obtained.
    """

    def __init__(self, version: str = DEFAULT_VERSION) -> None:
        self.classpath = str(fetch_jars(version) / "*")
        self.archive = archive_options(version)

    def command(self, class_name: str, *arguments: object, log_level: str = "warn") -> list[str]:
        """The command line that runs a class of Kafka's."""
        logging = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"
        options = ["-Xmx256m", *QUICK_JVM, *self.archive, logging]
        return ["java", *options, "-cp", self.classpath, class_name, *map(str, arguments)]

    async def run(
        self, class_name: str, *arguments: object, stdin: bytes = b"", timeout: float = 120.0, check: bool = True
    ) -> str:
        """Run a tool to its end and return its standard output.

        ``class_name`` is as in Kafka's scripts, such as ``org.apache.kafka.tools.ProducerPerformance``. Raises
        KafkaToolError for an exit status other than 0, unless ``check`` is false, and after ``timeout`` seconds.
        """
        pipe = subprocess.PIPE
        with contextlib.closing(Watchdog()) as watchdog:
            process = subprocess.Popen(  # noqa: ASYNC220 - quick, and here no cancellation can lose it
                self.command(class_name, *arguments), stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
            watchdog.guard(process.pid)
            try:
                output, errors = await asyncio.to_thread(_communicate, process, stdin, timeout)
            except subprocess.TimeoutExpired as error:
                raise KafkaToolError(f"{class_name} did not end within {timeout} s") from error
            finally:
                _reap(process)
                watchdog.release(process.pid)
        if check and process.returncode != 0:
            said = "\n".join((output + errors).decode(errors="replace").strip().splitlines()[-50:])
            raise KafkaToolError(f"{class_name} ended with {process.returncode}:\n{said}")
        return output.decode()

    async def console_consumer(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        max_messages: int | None = None,
        timeout_ms: int = 30_000,
        properties: Mapping[str, object] | None = None,
        arguments: Sequence[object] = (),
    ) -> list[str]:
        """The lines that Kafka's own console consumer prints for a topic from its beginning.

        It ends after ``max_messages``, or after ``timeout_ms`` without a message. ``properties`` are its formatter's,
        such as {"print.key": True, "print.headers": True, "key.separator": "|"}.
        """
        options: list[object] = ["--bootstrap-server", bootstrap_servers, "--topic", topic, "--from-beginning"]
        options += ["--timeout-ms", timeout_ms]
        if max_messages is not None:
            options += ["--max-messages", max_messages]
        for name, value in (properties or {}).items():
            options += ["--property", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
        output = await self.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *options, *arguments)
        return output.removesuffix("\n").split("\n") if output else []


def _communicate(process: subprocess.Popen[bytes], stdin: bytes, timeout: float) -> tuple[bytes, bytes]:
    """Runs in a thread. It also ends if another thread kills the process, since that ends its pipes."""
    try:
        return process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()  # reads the rest and closes the pipes
        raise


def _reap(process: subprocess.Popen[bytes]) -> None:
    """End a process and reap it, so that a thread in ``communicate`` returns."""
    if process.poll() is None:
        process.kill()
    process.wait()
