"""The imports of a process before its first record or connection, and the memory of an idle producer."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest

import aiokafkapy
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.servers.ports import free_port

# On a busy machine a producer warns that no broker answers yet, and a first line of the log imports structlog.
FIRST_RECORD = """\
import asyncio, logging, sys
logging.disable()
from aiokafkapy import KafkaProducer
async def main():
    async with KafkaProducer(sys.argv[1], linger_ms=1) as producer:
        await producer.send("t", b"first")
        print(*sys.modules)
asyncio.run(main())
"""

IDLE = """\
import asyncio, gc, logging, sys, tracemalloc
logging.disable()
from aiokafkapy import KafkaProducer
async def some(number):
    producers = [KafkaProducer(sys.argv[1]) for _ in range(number)]
    await asyncio.gather(*(producer.start() for producer in producers))
    return producers
async def main():
    first = await some(2)
    gc.collect()
    tracemalloc.start(1)
    more = await some(40)
    gc.collect()
    print(tracemalloc.get_traced_memory()[0] / 40)
    tracemalloc.stop()
    await asyncio.gather(*(producer.close() for producer in first + more))
asyncio.run(main())
"""

BROKER = """\
import os, signal, sys
import aiokafkapy.cli.broker as command
def say(text):
    command.say = str
    print(*sys.modules)
    os.kill(os.getpid(), signal.SIGINT)
command.say = say
sys.argv[:] = ["aiokafkapy", "broker", "--port", "0", "--topic", "t:3"]
from aiokafkapy.cli import main
main()
"""

LISTENS = """\
import os, sys
import aiokafkapy.cli.broker as command
def allow():
    print(*sys.modules)
    sys.stdout.flush()
    os._exit(0)
command.allow_connections = allow
sys.argv[:] = ["aiokafkapy", "broker", "--port", "0", "--nodes", "3"]
from aiokafkapy.cli import main
main()
"""

# Path files of ``site`` may import anything.
ALONE = "import sys\nsys.path[:] = {path}\n"


def run_alone(program: str, *arguments: str) -> list[str]:
    """The output of a program that is run without ``site``."""
    path = repr([entry for entry in sys.path if entry])
    command = [sys.executable, "-S", "-c", ALONE.format(path=path) + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


async def test_a_first_record_is_sent_without_slow_imports() -> None:
    async with DevBroker() as broker:
        modules = set(await asyncio.to_thread(run_alone, FIRST_RECORD, broker.bootstrap_servers))
    slow = {
        "pydantic", "annotated_types", "structlog", "hypothesis", "importlib.metadata", "email", "argparse", "tempfile",
        "difflib", "crc32c", "aiokafkapy.producer.statistics", "aiokafkapy.security.sasl.mechanism",
    }  # fmt: skip
    assert modules & slow == set()
    assert "aiokafkapy.producer.runtime" in modules
    assert len(modules) < 385  # 365; with pydantic 120 more


def test_the_broker_is_ready_without_slow_imports() -> None:
    modules = set(run_alone(BROKER))
    slow = {
        "pydantic", "annotated_types", "typer", "rich", "click", "structlog", "hypothesis", "importlib.metadata",
        "email", "argparse", "tempfile", "shutil", "crc32c", "aiokafkapy.security.sasl.mechanism",
        "aiokafkapy.security.tls", "aiokafkapy.broker.token_keys", "aiokafkapy.broker.faults.fault_schedule",
        "aiokafkapy.broker.handlers.fetch", "aiokafkapy.producer", "aiokafkapy.console", "aiokafkapy.protocol.otlp",
    }  # fmt: skip
    assert modules & slow == set()
    assert "aiokafkapy.broker.dev_broker" in modules
    assert len(modules) < 370  # 350; with pydantic, typer and all handlers 300 more


def test_the_broker_listens_before_its_longer_imports() -> None:
    modules = set(run_alone(LISTENS))
    slow = {"asyncio", "dataclasses", "inspect", "kio", "logging", "random", "ssl", "socket", "typer", "uvloop"}
    assert modules & slow == set()
    assert "aiokafkapy.cli.broker" in modules


def test_a_client_that_connects_before_the_broker_is_ready_is_answered() -> None:
    port = free_port()
    command = [sys.executable, "-m", "aiokafkapy", "broker", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            with accepted(port, process) as client:
                client.settimeout(60)
                client.sendall(struct.pack("!ihhih", 10, ApiKey.API_VERSIONS, 0, 5, -1))
                assert struct.unpack("!4xi", client.recv(8)) == (5,)
        finally:
            process.send_signal(signal.SIGINT)


def accepted(port: int, process: subprocess.Popen[bytes]) -> socket.socket:
    """A connection, which is asked for until the process accepts it."""
    while process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port))
        time.sleep(0.001)
    raise AssertionError(f"the broker ended with exit code {process.returncode}")


@pytest.mark.skipif(not aiokafkapy.compiled, reason="the compiled core's objects are smaller")
async def test_an_idle_producer_holds_little() -> None:
    async with DevBroker() as broker:
        (bytes_each,) = await asyncio.to_thread(run_alone, IDLE, broker.bootstrap_servers)
    assert float(bytes_each) < 60_000  # 28,000
