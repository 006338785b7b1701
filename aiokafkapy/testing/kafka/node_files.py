"""A node of ``ApacheKafka``: its ports, and the files in its directory.

Owns the configuration of a small node, and the formatting of its log directory. It does not start or end nodes.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..servers.ports import LOOPBACK
from .jars import KafkaUnavailableError
from .tools import KafkaTools

__all__ = [
    "Node",
    "copy_formatted",
    "format_node",
    "new_uuid",
    "server_properties",
    "tail_of",
    "write_properties",
]


@dataclass(slots=True)
class Node:
    """One node: its lasting parts, and the process while it runs."""

    node_id: int
    port: int
    controller_port: int | None  # None: broker only
    listener_ports: Mapping[str, int]
    directory: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> tuple[str, int]:
        return LOOPBACK, self.port

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def console(self) -> Path:
        return self.directory / "console.log"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def properties(self) -> Path:
        return self.directory / "server.properties"


def server_properties(node: Node, voters: str, voter_count: int) -> dict[str, object]:
    """The configuration of a small node: fast start, fast fail-over, little memory, few files."""
    replicas = min(3, voter_count)
    listeners = f"PLAINTEXT://{LOOPBACK}:{node.port}"
    return {
        "node.id": node.node_id,
        "process.roles": "broker" if node.controller_port is None else "broker,controller",
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners + (f",CONTROLLER://{LOOPBACK}:{node.controller_port}" if node.controller_port else ""),
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": node.data,
        # An idle node costs a fiftieth of a processor, and wakes each thread several times a second.
        "num.network.threads": 1,
        "num.io.threads": 2,
        "background.threads": 2,
        # Memory: segments and indexes are small, and the cleaner's 128 MiB buffer would not fit into the heap.
        "log.segment.bytes": 32 * 1024 * 1024,
        "log.retention.bytes": 512 * 1024 * 1024,
        "log.index.size.max.bytes": 1024 * 1024,
        "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
        "log.segment.delete.delay.ms": 1000,
        # Tests use any timestamps: an old record would be deleted within five minutes.
        "log.retention.ms": -1,
        # Internal topics, as small as they can be.
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": 1,
        # An overdue transaction is aborted soon, not up to ten seconds later.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
        "group.initial.rebalance.delay.ms": 0,
        # A killed node is detected within seconds, but a stalled two-core machine is tolerated.
        "broker.session.timeout.ms": 5000,
        "broker.heartbeat.interval.ms": 500,
        "controller.quorum.election.timeout.ms": 1000,
        "controller.quorum.fetch.timeout.ms": 2000,
    }


def write_properties(path: Path, settings: Mapping[str, object]) -> None:
    """Write a Java properties file."""
    path.write_text("".join(f"{name}={_escaped(value)}\n" for name, value in settings.items()))


def format_node(node: Node, tools: KafkaTools, cluster_id: str, options: Sequence[str], timeout: float) -> None:
    """Format a node's log directory by Kafka's tool, with these ``options``. Raises KafkaUnavailableError."""
    given = ["format", "--cluster-id", cluster_id, "--config", node.properties, *options]
    # Java decodes its arguments by the locale, and user names may be non-ASCII.
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    command = tools.command("kafka.tools.StorageTool", *given)
    with node.console.open("ab") as console:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            timeout=timeout,
            check=False,
        )
    if done.returncode != 0:
        raise KafkaUnavailableError(f"node {node.node_id} could not be formatted:\n{tail_of(node.console)}")


def copy_formatted(formatted: Node, node: Node) -> None:
    """Format a node like another one, without Kafka's tool, whose JVM takes a second of CPU for each."""
    shutil.copytree(formatted.data, node.data)
    meta = node.data / "meta.properties"
    settings = dict(line.split("=", 1) for line in meta.read_text().splitlines() if not line.startswith("#"))
    settings |= {"node.id": str(node.node_id), "directory.id": new_uuid()}
    meta.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))


def new_uuid() -> str:
    """A UUID in Kafka's own form, not beginning with a dash, which would look like an option to its tools."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def tail_of(path: Path, lines: int = 25) -> str:
    """The last lines of a node, and its earlier errors, since a failing node writes much while it shuts down."""
    try:
        said = path.read_text(errors="replace").splitlines()
    except OSError as error:
        return str(error)
    errors = [line for line in said[:-lines] if " ERROR " in line or " FATAL " in line or "Exception" in line]
    return "\n".join(errors[-lines:] + said[-lines:])


def _escaped(value: object) -> str:
    """A value escaped for a Java properties file: ASCII, with backslash escapes."""
    text = str(value).replace("\\", "\\\\").encode("utf-16-be", "surrogatepass")
    units = (int.from_bytes(text[at : at + 2]) for at in range(0, len(text), 2))
    return "".join(chr(unit) if 32 <= unit < 127 else f"\\u{unit:04x}" for unit in units)
