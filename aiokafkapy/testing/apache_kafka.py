"""A real Apache Kafka for tests: one node or several, started in seconds, killed and restarted at will.

    async with ApacheKafka(nodes=3) as kafka:
        await kafka.create_topic("flights", partitions=6, replication_factor=3)
        kafka.kill(await kafka.leader_of("flights", 0))      # kill -9
        ...
        await kafka.restore()                                # every node that is down, at its old address

Nodes run in KRaft's combined mode (controller and broker in one process) from jars that are fetched once
(``kafka.jars``), with their logs on a tmpfs if there is one. Needs Java 17 on the path: see
``ApacheKafka.available()``. ``python -m aiokafkapy.testing.apache_kafka [VERSION ...]`` only fetches the jars.
Listeners with TLS and SASL, users and ACLs are configured by ``kafka.security``.

Rules: the object belongs to no event loop: it may be entered by ``with`` in one place (a session fixture) and its
coroutines awaited in any loop, since everything slow runs in a worker thread. No node or file outlives the owner, even
one killed with -9: a ``Watchdog`` ends the nodes and removes their files. A node keeps its ports over restarts.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from ..errors import KafkaTimeoutError
from .blocking_client import Admin, PartitionState
from .kafka.acls import Acl, add_acls, remove_acls
from .kafka.class_archive import make_archive
from .kafka.jars import DEFAULT_VERSION, KafkaUnavailableError, fetch_jars, unavailable_reason
from .kafka.node_files import Node, copy_formatted, format_node, new_uuid, server_properties, tail_of, write_properties
from .kafka.security import KafkaSecurity, reload_certificates, shows_certificate
from .kafka.tools import QUICK_JVM, KafkaToolError, KafkaTools
from .servers.ports import LOOPBACK, free_port
from .servers.processes import stop_process
from .servers.watchdog import Watchdog

__all__ = ["ApacheKafka", "KafkaToolError", "KafkaUnavailableError"]

NODE_JVM = ("-Xmx512m", *QUICK_JVM)

START_TIMEOUT = 120.0
STOP_TIMEOUT = 30.0
ADMIN_TIMEOUT = 30.0

# Properties that list all listeners, to which each listener is added.
_LISTS = ("listeners", "advertised.listeners", "listener.security.protocol.map")


class ApacheKafka:
    """A cluster of real Kafka nodes, numbered from 1, on this machine; enter it with ``with`` or ``async with``.

    ``config`` is added to every node's server.properties, which keep records of any age. ``version`` is any
    release from 3.9 on in Maven Central. ``security`` adds listeners, whose addresses ``bootstrap_servers_of`` returns;
    PLAINTEXT stays available to tests. ``plugins`` are jars and directories of classes behind Kafka's own jars, for
    classes that ``config`` names, such as ``metric.reporters``.

    The id of a node that does not exist is a KeyError, and calls about topics raise OSError if no node answers.
    Cancelling a call does not stop its work, which a thread does; only a tool is killed.
    """

    def __init__(
        self,
        nodes: int = 1,
        version: str = DEFAULT_VERSION,
        config: Mapping[str, object] | None = None,
        *,
        security: KafkaSecurity | None = None,
        plugins: Sequence[str | os.PathLike[str]] = (),
        jvm_options: Sequence[str] = NODE_JVM,
    ) -> None:
        if nodes < 1:
            raise ValueError(f"a cluster has at least one node, not {nodes}")
        self.version = version
        self.security = security
        self.admin = Admin(self._running_addresses)
        self._initial_nodes = nodes
        self._config = dict(config or {})
        self._plugins = [os.fspath(path) for path in plugins]
        self._jvm_options = (*jvm_options, *(security.jvm_options() if security else ()))
        self._nodes: dict[int, Node] = {}
        self._cluster_id = new_uuid()
        self._voters = ""
        self._directory = Path()
        self._watchdog: Watchdog | None = None

    @staticmethod
    def available(version: str = DEFAULT_VERSION) -> bool:
        """True if a real Kafka can probably be run here; fetches nothing."""
        return unavailable_reason(version) is None

    @staticmethod
    def unavailable_reason(version: str = DEFAULT_VERSION) -> str | None:
        """The missing requirements of a real Kafka here, or None."""
        return unavailable_reason(version)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, running or not, for the client option of this name."""
        return ",".join(f"{LOOPBACK}:{node.port}" for node in self._nodes.values())

    def bootstrap_servers_of(self, listener: str) -> str:
        """The advertised addresses of one of ``security``'s listeners on all nodes."""
        if self.security is None or listener not in self.security.listeners:
            known = ", ".join(self.security.listeners) if self.security else "none: see `security`"
            raise ValueError(f"there is no listener {listener!r}; there are {known}")
        host = self.security.listeners[listener].host
        return ",".join(f"{host}:{node.listener_ports[listener]}" for node in self._nodes.values())

    @property
    def node_ids(self) -> list[int]:
        """The ids of all nodes, running or not."""
        return list(self._nodes)

    @property
    def running(self) -> list[int]:
        """The ids of the nodes whose process is alive."""
        return [node.node_id for node in self._nodes.values() if node.is_running]

    @property
    def process_ids(self) -> dict[int, int]:
        """The process of each node that runs, by node id."""
        return {node_id: node.process.pid for node_id, node in self._nodes.items() if node.process and node.is_running}

    def address_of(self, node_id: int) -> tuple[str, int]:
        """Host and port of a node; they stay the same over restarts."""
        return self._nodes[node_id].address

    def log_directory(self, node_id: int, topic: str, partition: int = 0) -> Path:
        """The directory of a partition's segments on a node, for ``kafka.tools.DumpLogSegments``."""
        return self._nodes[node_id].data / f"{topic}-{partition}"

    def __enter__(self) -> Self:
        """Start all nodes and return when each knows all of them; blocks. Raises KafkaUnavailableError without Java or
        jars, and as ``start``; cleans up then.
        """
        self.tools = KafkaTools(self.version)
        shared_memory = Path("/dev/shm")  # a tmpfs on Linux
        parent = shared_memory if os.access(shared_memory, os.W_OK) else None
        self._directory = Path(tempfile.mkdtemp(prefix="aiokafkapy-kafka-", dir=parent))
        self._watchdog = Watchdog(str(self._directory))
        try:
            self._lay_out(self._initial_nodes)
            self._start(self._nodes.values())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        """Kill all nodes at once and remove their files."""
        for node_id in self.running:
            self.kill(node_id)
        if self._watchdog is not None:
            self._watchdog.close()
        self._nodes.clear()

    async def __aenter__(self) -> Self:
        """As ``with``, without blocking the loop."""
        starting = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The thread cannot be stopped: let it finish, then undo its work.
            with contextlib.suppress(Exception):
                await starting
                await asyncio.to_thread(self.__exit__)
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        """As ``with``, without blocking the loop."""
        await asyncio.to_thread(self.__exit__)

    def kill(self, node_id: int) -> None:
        """kill -9: the node is gone when this returns. Its files and its address stay. Does nothing if it is down."""
        self._end(self._nodes[node_id], signal.SIGKILL, STOP_TIMEOUT)

    async def stop(self, node_id: int) -> None:
        """Controlled shutdown: the node moves its leaders away first. It is killed after half a minute."""
        await asyncio.to_thread(self._end, self._nodes[node_id], signal.SIGTERM, STOP_TIMEOUT)

    async def start(self, node_id: int) -> None:
        """Start a node that is down, and return when it and all running nodes know each other. Raises
        KafkaUnavailableError, with the end of the nodes' logs, if a node dies or this takes more than two minutes.
        """
        await asyncio.to_thread(self._start, [self._nodes[node_id]])

    async def restart(self, node_id: int) -> None:
        """``stop``, then ``start``; raises as that."""
        await self.stop(node_id)
        await self.start(node_id)

    async def restore(self) -> None:
        """Start every node that is down; returns and raises as ``start``."""
        await asyncio.to_thread(self.restore_blocking)

    def restore_blocking(self) -> None:
        """``restore`` for fixtures that have no event loop."""
        self._start(self._nodes.values())

    def pause(self, node_id: int) -> None:
        """SIGSTOP: the node keeps its connections but answers nothing until ``resume``. Returns when it has stopped;
        raises TimeoutError after ten seconds. Does nothing if it is down.
        """
        process = self._nodes[node_id].process
        if process is not None and process.poll() is None:
            stop_process(process.pid)

    def resume(self, node_id: int) -> None:
        """SIGCONT after ``pause``."""
        self._signal(self._nodes[node_id], signal.SIGCONT)

    async def add_node(self) -> int:
        """Add a broker without partitions to the running cluster; returns its id, and raises as ``start``."""
        node = self._new_node(max(self._nodes) + 1, controller=False)
        self._nodes[node.node_id] = node
        await asyncio.to_thread(self._start, [node])
        return node.node_id

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic, replicated on up to three nodes; returns when every node knows its leaders. Raises
        TopicAlreadyExistsError or the broker's other error, and KafkaTimeoutError if they are not known half a minute
        after its answer.
        """
        replicas = replication_factor or min(3, len(self._nodes))
        await asyncio.to_thread(self.admin.create_topic, name, partitions, replicas, config or {}, ADMIN_TIMEOUT)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic; returns when no node knows it. Raises UnknownTopicOrPartitionError without such a topic, and
        KafkaTimeoutError if a node still knows it half a minute after the answer.
        """
        await asyncio.to_thread(self.admin.delete_topic, name, ADMIN_TIMEOUT)

    async def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to ``total`` partitions; returns when every node knows their leaders. Raises
        InvalidPartitionsError if there are as many or more, UnknownTopicOrPartitionError, and KafkaTimeoutError as
        ``create_topic``.
        """
        await asyncio.to_thread(self.admin.add_partitions, name, total, ADMIN_TIMEOUT)

    async def partitions_of(self, name: str) -> dict[int, PartitionState]:
        """Leader and replicas of each partition of a topic; empty when there is no such topic."""
        return await asyncio.to_thread(self.admin.partitions, name)

    async def leader_of(self, name: str, partition: int = 0) -> int:
        """The id of a partition's leader, -1 for none. Raises KeyError if there is no such partition."""
        return (await self.partitions_of(name))[partition].leader

    async def elect_leaders(self, name: str, partitions: Collection[int] | None = None) -> list[int]:
        """Make the first replica of each partition (None: of all) its leader; returns those that got another leader.

        Returns when every node knows the new leaders, after at most half a minute. Raises
        PreferredLeaderNotAvailableError for a partition whose first replica is down or not in sync; the leaders of
        others may have changed then. Use it to return leaders to a node that was down.
        """
        return await asyncio.to_thread(self.admin.elect_leaders, name, partitions, ADMIN_TIMEOUT)

    async def reassign(self, name: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Put the replicas of each partition named on these nodes, the preferred leader first: ``{0: [3, 1]}``.

        Returns when every node knows them and all are in sync. A leader that is among them stays the leader: see
        ``elect_leaders``. Raises InvalidReplicaAssignmentError for nodes that do not exist, and KafkaTimeoutError after
        half a minute, for instance if one of them is down; the reassignment is not cancelled then.
        """
        await asyncio.to_thread(self.admin.reassign, name, replicas, ADMIN_TIMEOUT)

    async def add_acls(self, *acls: Acl) -> None:
        """Add ACLs; returns when every running node applies them. Needs an authorizer."""
        await asyncio.to_thread(add_acls, self.admin, self._running_addresses(), acls, ADMIN_TIMEOUT)

    async def remove_acls(self, *acls: Acl) -> None:
        """Remove ACLs; returns when no running node applies them."""
        await asyncio.to_thread(remove_acls, self.admin, self._running_addresses(), acls, ADMIN_TIMEOUT)

    async def reload_certificates(self) -> None:
        """Make every running node reload its certificates; returns when all present them. Connections stay open.

        Kafka accepts only certificates with the subject and the names of the old one; any other is a KafkaTimeoutError
        after half a minute.
        """
        await asyncio.to_thread(self._reload_certificates)

    async def tool(
        self, class_name: str, *arguments: object, stdin: bytes = b"", timeout: float = 120.0, check: bool = True
    ) -> str:
        """Run one of Kafka's Java tools to its end and return its standard output: see ``KafkaTools.run``."""
        return await self.tools.run(class_name, *arguments, stdin=stdin, timeout=timeout, check=check)

    async def console_consumer(
        self,
        topic: str,
        *,
        max_messages: int | None = None,
        timeout_ms: int = 30_000,
        properties: Mapping[str, object] | None = None,
        arguments: Sequence[object] = (),
    ) -> list[str]:
        """The output of Kafka's own console consumer for a topic: see ``KafkaTools.console_consumer``."""
        return await self.tools.console_consumer(
            self.bootstrap_servers,
            topic,
            max_messages=max_messages,
            timeout_ms=timeout_ms,
            properties=properties,
            arguments=arguments,
        )

    # internals

    def _running_addresses(self) -> list[tuple[str, int]]:
        return [node.address for node in self._nodes.values() if node.is_running]

    def _reload_certificates(self) -> None:
        security = self.security
        if security is None:
            raise ValueError("this cluster has no certificates: see `security`")
        names = [name for name, listener in security.listeners.items() if listener.has_tls]
        for node in self._nodes.values():
            if node.is_running:
                reload_certificates(security, node.node_id, node.address)
                for name in names:
                    address = (LOOPBACK, node.listener_ports[name])
                    shown = functools.partial(shows_certificate, security, name, address)
                    what = f"node {node.node_id} does not show its new certificate on {name}"
                    self.admin.wait_until(shown, ADMIN_TIMEOUT, what)

    def _lay_out(self, count: int) -> None:
        """Choose ports and write the files of the first nodes, which vote."""
        self._nodes = {}
        for node_id in range(1, count + 1):  # one by one: each avoids the ports of the earlier ones
            self._nodes[node_id] = self._new_node(node_id, controller=True)
        self._voters = ",".join(f"{node.node_id}@{LOOPBACK}:{node.controller_port}" for node in self._nodes.values())

    def _new_node(self, node_id: int, *, controller: bool) -> Node:
        taken = {
            port
            for node in self._nodes.values()
            for port in (node.port, node.controller_port, *node.listener_ports.values())
        }

        def take() -> int:
            taken.add(port := free_port(taken))
            return port

        directory = self._directory / f"node-{node_id}"
        directory.mkdir()
        listeners = self.security.listeners if self.security else {}
        return Node(node_id, take(), take() if controller else None, {name: take() for name in listeners}, directory)

    def _start(self, nodes: Iterable[Node]) -> None:
        """Start the ``nodes`` that are down; blocks until all running nodes see one another."""
        starting = [node for node in nodes if not node.is_running]
        self._format([node for node in starting if not node.data.exists()])
        for node in starting:
            self._launch(node)
        self._wait_until_ready(time.monotonic() + START_TIMEOUT)

    def _format(self, nodes: Sequence[Node]) -> None:
        """Give new nodes their configuration and an empty, formatted log directory."""
        for node in nodes:
            settings = server_properties(node, self._voters, self._initial_nodes)
            if self.security is not None:
                own = self.security.server_properties(node.listener_ports, LOOPBACK)
                settings |= {name: f"{settings[name]},{own.pop(name)}" for name in _LISTS if name in own} | own
            write_properties(node.properties, settings | self._config)
        if nodes:
            options = [] if self.security is None else self.security.format_options()
            format_node(nodes[0], self.tools, self._cluster_id, options, START_TIMEOUT)
        for node in nodes[1:]:
            copy_formatted(nodes[0], node)

    def _launch(self, node: Node) -> None:
        level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"
        options = [*self._jvm_options, *self.tools.archive, level]
        # Behind Kafka's jars, so that the archive of their classes still fits.
        class_path = os.pathsep.join([self.tools.classpath, *self._plugins])
        command = ["java", *options, "-cp", class_path, "kafka.Kafka", str(node.properties)]
        with node.console.open("ab") as console:
            # A session of its own: Ctrl-C must reach only the test, which then ends the nodes.
            node.process = subprocess.Popen(
                command,
                cwd=node.directory,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        if self._watchdog is not None:
            self._watchdog.guard(node.process.pid)

    def _wait_until_ready(self, deadline: float) -> None:
        """Wait until every running node lists every running node; raises at once if a node dies."""
        expected = [node for node in self._nodes.values() if node.process is not None]

        def all_see_all() -> bool:
            for node in expected:
                if not node.is_running:
                    raise KafkaUnavailableError(f"node {node.node_id} died while starting:\n{tail_of(node.console)}")
            ids = {node.node_id for node in expected}
            return all(ids <= self.admin.brokers(node.address) for node in expected)

        try:
            self.admin.wait_until(all_see_all, deadline - time.monotonic(), "the nodes do not all see one another")
        except KafkaTimeoutError as error:
            tails = "\n".join(f"node {node.node_id}:\n{tail_of(node.console)}" for node in expected)
            raise KafkaUnavailableError(f"{error}\n{tails}") from error

    def _end(self, node: Node, how: signal.Signals, timeout: float) -> None:
        if node.process is None:
            return
        self._signal(node, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            node.process.wait(timeout)
        if node.process.poll() is None:
            node.process.kill()
            node.process.wait()
        if self._watchdog is not None:
            self._watchdog.release(node.process.pid)
        node.process = None

    def _signal(self, node: Node, number: signal.Signals) -> None:
        if node.process is not None and node.process.poll() is None:
            node.process.send_signal(number)


def _run_once(version: str, options: tuple[str, ...]) -> None:
    with ApacheKafka(version=version, jvm_options=(*NODE_JVM, *options)) as kafka:
        asyncio.run(kafka.stop(1))


if __name__ == "__main__":
    try:
        for wanted in sys.argv[1:] or [DEFAULT_VERSION]:
            print(fetch_jars(wanted))
            make_archive(wanted, functools.partial(_run_once, wanted))
    except KafkaUnavailableError as unavailable:
        sys.exit(str(unavailable))
