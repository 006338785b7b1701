"""``DevBroker``: a Kafka cluster inside this process, for tests and laptops.

Owns the nodes and the cluster's state, on which ``controls`` acts. Each node has all listeners, with its own
SocketServer, RequestChannel and handlers; topics, logs and groups are shared, so a leader is only an id and an epoch.
It must not know any API. Kafka's counterpart is ``KafkaRaftServer``, or ``KafkaClusterTestKit`` of its tests.

Rules:

- everything but ``start`` and ``stop`` is synchronous, and all of it belongs to the loop that started the broker;
- a node keeps its port for as long as the broker lives, also while it is stopped;
- after ``stop`` there is no task, socket, timer or open file of ours.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ..common import ConsumedRecord, Node
from ..errors import ConfigurationError, IllegalStateError, UnknownTopicOrPartitionError
from .broker_node import BrokerNode
from .clock import WallClock
from .config import BrokerConfig
from .context import BrokerState
from .controls import Controls
from .coordination.group_coordinator import GroupCoordinator
from .coordination.purgatory import Purgatory
from .coordination.transaction_coordinator import TransactionCoordinator
from .coordination.transaction_expiry import TransactionExpiry
from .coordination.transaction_markers import TransactionMarkers
from .emulation.by_name import emulation_of
from .features import Features, config_as
from .listeners import DEFAULT_LISTENER, Endpoint, Listener, Listeners, endpoints_of
from .network.held_ports import HeldPorts
from .security.authentication import Authentication, ListenerAuthentication, TokenKeys
from .security.authorizer import Authorizer
from .security.files import AclFile
from .security.sasl_session import SaslSession
from .storage.data_dir import DataDirLock, load_cluster_id
from .storage.log_manager import LogManager
from .storage.producer_state import ProducerIdManager
from .storage.topic_config import check_defaults
from .storage.topics import Partition, TopicRegistry
from .telemetry import ClientTelemetry

if TYPE_CHECKING:
    from ..console import Console
    from .network.client_connection import ClientConnection
    from .network.request_channel import RequestWatcher

__all__ = ["DevBroker"]

NOT_RUNNING: Final = "the broker is not running: use `async with DevBroker()`, or await start()"


class DevBroker:
    """An embedded broker of one or more nodes, ids 1 to ``nodes``; ready when ``start`` (or ``async with``) returns.

    ``port=0`` takes free ports; any other port is node 1's, and the next nodes have the next ones. With ``data_dir``
    topics, records, offsets and the cluster id survive, else everything is in memory. Clients are told to connect to
    ``advertised_host`` when it is not ``host``. ``config`` has Kafka's broker options with underscores
    (``auto_create_topics_enable=False``).

    ``listeners={"PLAINTEXT": "127.0.0.1:0", "SSL": "127.0.0.1:0"}`` has every node listen on each of them, instead of
    on ``host`` and ``port``; a name of your own says its protocol: ``{"INTERNAL": "SASL_SSL://0.0.0.0:9094"}``, or a
    ``Listener``.

    ``version="2.8"`` has it advertise and behave as that release of Kafka for clients, from 0.11 to 4.1, or as another
    product: ``"event-hubs"``, ``"redpanda"``.

    ``console=True`` serves a page that shows and controls the broker, at ``broker.console.url``; ``"host:port"`` says
    where. It needs ``aiokafkapy[console]``.
    """

    def __init__(
        self,
        nodes: int = 1,
        data_dir: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        advertised_host: str | None = None,
        listeners: Listeners | None = None,
        console: bool | str = False,
        version: str | None = None,
        **config: object,
    ) -> None:
        """Reads nothing but the table of releases, and needs no running loop. Raises ConfigurationError for a wrong
        option.
        """
        if nodes < 1:
            raise ConfigurationError(f"nodes={nodes}: a broker has at least one node")
        if listeners is not None and (host, port) != ("127.0.0.1", 0):
            raise ConfigurationError(
                f"host={host!r}, port={port}: with listeners each has its own; write them there, as 'host:port'"
            )
        if listeners is None:
            listeners = {DEFAULT_LISTENER: Listener(DEFAULT_LISTENER, host, port)}
        self.emulation = None if version is None else emulation_of(version)
        """The release or product that clients see, None for this broker itself."""
        self._cluster_id_prefix = "" if self.emulation is None else self.emulation.cluster_id_prefix
        self.config = BrokerConfig.of(**config) if self.emulation is None else config_as(self.emulation, config)
        check_defaults(self.config)
        self._endpoints = endpoints_of(listeners, self.config, nodes, advertised_host)
        self.controls = Controls(self)
        self.telemetry = ClientTelemetry()
        self._node_ids = list(range(1, nodes + 1))
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._ports = {
            node_id: {name: endpoint.port_of(node_id) for name, endpoint in self._endpoints.items()}
            for node_id in self._node_ids
        }
        self._held_ports = HeldPorts()
        self._running: dict[int, BrokerNode] = {}
        self._stopping: list[BrokerNode] = []
        self._stalled: set[int] = set()
        self._authentications: dict[str, ListenerAuthentication] = {}
        self._state: BrokerState | None = None
        self._expiry: TransactionExpiry | None = None
        self._logs: LogManager | None = None
        self._lock = DataDirLock(self._data_dir)
        self._request_watcher: RequestWatcher | None = None
        self._console = _new_console(self, address=console) if console else None

    # starting and stopping

    async def start(self) -> None:
        """Open the data and every port.

        Raises OSError when a port is taken, IllegalStateError when the broker runs already or another one has its data
        in ``data_dir``, and DamagedFileError, a KafkaStorageError that names the file and says what to do, when a file
        there is not as a broker wrote it. Nothing is left open then.
        """
        if self._state is not None:
            raise IllegalStateError("the broker is running already")
        try:
            self._lock.acquire()
            self._state = await self._open_state()
        except BaseException:
            self._lock.release()
            self._release_ports()
            raise
        try:
            for node_id in self._node_ids:
                self._start_node(node_id)
            if self._console is not None:
                await self._console.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close every connection, port and file, also when it is cancelled; idempotent."""
        try:
            if self._console is not None:
                await self._console.stop()
        finally:
            await self._close_cluster()

    async def _close_cluster(self) -> None:
        state, self._state = self._state, None
        if state is None:
            return
        if self.controls.playback is not None:
            self.controls.playback.abandon()
        for node_id in list(self._running):
            self._stop_node(node_id, state)
        self._release_ports()
        if self._expiry is not None:
            self._expiry.close()
            self._expiry = None
        if self._logs is not None:
            self._logs.close()
            self._logs = None
        state.transactions.close()
        state.groups.close()
        state.purgatory.close()
        state.authentication.close()
        try:
            for node in self._stopping:
                await node.wait_stopped()
            # Aborted transports close their sockets in the next turn of the loop.
            await asyncio.sleep(0)
        finally:
            self._stopping.clear()
            state.topics.close()
            self._lock.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    # the cluster, for clients

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every node, also of those that are stopped, for a client's configuration.

        With several listeners these are the addresses of the first.
        """
        return self.bootstrap_servers_of(next(iter(self._endpoints)))

    def bootstrap_servers_of(self, listener: str) -> str:
        """The addresses of one listener. ValueError when no listener has this name."""
        nodes = self.state.advertised.get(listener)
        if nodes is None:
            raise ValueError(f"there is no listener {listener!r}: the listeners are {', '.join(self._endpoints)}")
        return ",".join(nodes[each].address for each in self._node_ids)

    @property
    def nodes(self) -> list[Node]:
        """Every node of the cluster, running or not."""
        return [self.state.all_nodes[node_id] for node_id in self._node_ids]

    @property
    def running_nodes(self) -> list[Node]:
        """The nodes that answer."""
        return [node for node in self.nodes if node.node_id in self._running]

    @property
    def cluster_id(self) -> str:
        """The cluster's id, as clients see it."""
        return self.state.cluster_id

    @property
    def state(self) -> BrokerState:
        """Topics, groups and the rest, for tests that look inside. IllegalStateError unless running."""
        if self._state is None:
            raise IllegalStateError(NOT_RUNNING)
        return self._state

    # topics and records

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        *,
        replication_factor: int = -1,
        config: Mapping[str, object] | None = None,
        **options: object,
    ) -> None:
        """Make a topic; -1 is the broker's default. Its options by Kafka's names in ``config``, or with underscores:
        ``min_insync_replicas=2``.

        Raises TopicAlreadyExistsError, InvalidTopicError, InvalidPartitionsError, InvalidReplicationFactorError, and
        InvalidConfigError; IllegalStateError unless the broker runs.
        """
        given = {**(config or {}), **{option.replace("_", "."): value for option, value in options.items()}}
        merged: dict[str, str | None] = {
            option: str(value).lower() if isinstance(value, bool) else str(value) for option, value in given.items()
        }
        self.state.topics.create(name, partitions, merged, replication_factor=replication_factor)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises UnknownTopicOrPartitionError when there is none."""
        self.state.topics.delete(name)

    def records(self, topic: str, partition: int | None = None) -> list[ConsumedRecord]:
        """The records of a topic, or of a partition, decoded, in order of partition, then offset.

        Empty for an unknown topic. Raises UnknownTopicOrPartitionError for a partition that a known
        topic does not have.
        """
        found = self.state.topics.get(topic)
        if found is None:
            return []
        if partition is not None:
            return self._log_records(topic, partition)
        return [record for each in found.partitions for record in self._log_records(topic, each.index)]

    def metrics(self) -> dict[str, float]:
        """Connections and requests of all running nodes since each started, by name; empty when none runs. Names that
        end with ``_time`` are seconds, summed over all requests; all others are counts.
        """
        totals: dict[str, float] = {}
        for node in self._running.values():
            for name, value in node.metrics().items():
                totals[name] = totals.get(name, 0) + value
        return totals

    # for the console, and other observers

    @property
    def console(self) -> Console:
        """The console. IllegalStateError when none was asked for."""
        if self._console is None:
            raise IllegalStateError("this broker has no console: make it with DevBroker(console=True)")
        return self._console

    @property
    def protocols(self) -> list[str]:
        """The security protocol of each listener."""
        return [each.security_protocol for each in self._endpoints.values()]

    @property
    def stalled_nodes(self) -> list[int]:
        """The nodes that read and write nothing."""
        return sorted(self._stalled)

    def connections(self) -> list[tuple[int, ClientConnection]]:
        """The open connections of the running nodes, each with its node's id."""
        return [(node_id, each) for node_id, node in self._running.items() for each in node.server.connections]

    def watch_requests(self, watcher: RequestWatcher | None) -> None:
        """Call ``watcher`` with every request that is over, on all nodes; None ends it. It must be quick."""
        self._request_watcher = watcher
        for node_id, node in self._running.items():
            self._watch(node_id, node)

    # for the controls

    def drop_connections(self, node_id: int | None) -> int:
        """See ``Controls.drop_connections``."""
        return sum(node.server.drop_connections() for node in self._chosen(node_id))

    def stall_connections(self, is_stalled: bool, node_id: int | None) -> None:
        """See ``Controls.stall_connections``. A node that is stopped and started is still stalled."""
        nodes = self._chosen(node_id)
        chosen = set(self._node_ids if node_id is None else [node_id])
        self._stalled = self._stalled | chosen if is_stalled else self._stalled - chosen
        for node in nodes:
            node.server.stall(is_stalled)

    def expire_sessions(self, node_id: int | None) -> int:
        """See ``Controls.expire_sessions``."""
        connections = [connection for node in self._chosen(node_id) for connection in node.server.connections]
        sessions = [connection.info.session for connection in connections]
        return sum(session is not None and session.expire(self.state.now()) for session in sessions)

    def refuse_authentication(self, is_refused: bool) -> None:
        """See ``Controls.refuse_authentication``. False does nothing while the broker does not run."""
        if is_refused or self._state is not None:
            self.state.authentication.is_refusing = is_refused

    def rotate_certificate(self, keystore_location: str | os.PathLike[str], listener: str | None) -> None:
        """See ``Controls.rotate_certificate``. ValueError when there is no such listener with TLS."""
        chosen = [each for each in self._endpoints.values() if each.tls is not None and listener in (None, each.name)]
        if not chosen:
            names = ", ".join(self._endpoints)
            wanted = "no listener has TLS" if listener is None else f"no TLS listener is named {listener!r}"
            raise ValueError(f"{wanted}: the listeners are {names}")
        keystore = {
            "ssl_keystore_location": os.fspath(keystore_location),
            "ssl_key_location": None,
            "ssl_keystore_certificate_chain": None,
            "ssl_keystore_key": None,
            "ssl_context": None,
        }
        rotated = [(endpoint, endpoint.options_of(endpoint.config.altered(**keystore))) for endpoint in chosen]
        for _, options in rotated:
            if options.tls is not None:
                options.tls.context()
        for endpoint, options in rotated:
            endpoint.use(options)

    def set_leader(self, topic: str, partition: int, node_id: int | None) -> None:
        """See ``Controls.set_leader``. ValueError for a node that does not run."""
        state = self.state
        if node_id is not None and node_id not in self._running:
            raise ValueError(f"node {node_id} cannot lead: the running nodes are {sorted(self._running)}")
        state.topics.set_leader(topic, partition, node_id)

    def move_coordinator(self, key: str, node_id: int | None) -> None:
        """See ``Controls.move_coordinator``. ValueError for a node that does not run."""
        state = self.state
        if node_id is not None and node_id not in self._running:
            raise ValueError(f"node {node_id} cannot coordinate: the running nodes are {sorted(self._running)}")
        with self._moving_coordinators():
            state.coordinators.moved[key] = node_id

    def hold_transactions(self, is_held: bool) -> None:
        """See ``Controls.hold_transactions``. False does nothing while the broker does not run."""
        if is_held or self._state is not None:
            self.state.transactions.hold(is_held)

    def expire_transactions(self, transactional_id: str | None) -> int:
        """See ``Controls.expire_transactions``."""
        return self.state.transactions.expire(math.inf, transactional_id)

    def advance_clock(self, seconds: float) -> None:
        """See ``Controls.advance_clock``."""
        self.state.clock.advance(seconds)
        self.state.groups.share_partitions.expire()
        self._run_logs(even_active=False)

    def clean_logs(self) -> None:
        """See ``Controls.clean_logs``."""
        self._run_logs(even_active=True)

    def stop_node(self, node_id: int) -> None:
        """See ``Controls.stop_node``. Stopping a stopped node does nothing."""
        self._check_node(node_id)
        if node_id in self._running:
            with self._moving_coordinators():
                self._stop_node(node_id, self.state)
            ports = self._ports[node_id]
            self._held_ports.hold(node_id, ((each.host, ports[name]) for name, each in self._endpoints.items()))

    def start_node(self, node_id: int) -> None:
        """See ``Controls.start_node``. Starting a running node does nothing."""
        self._check_node(node_id)
        if node_id not in self._running:
            with self._moving_coordinators():
                self._start_node(node_id)
                self.state.coordinators.note_nodes(self._node_ids, self._running)
            self.state.topics.node_started(node_id)

    # internals

    async def _open_state(self) -> BrokerState:
        loop = asyncio.get_running_loop()
        clock = WallClock()
        purgatory = Purgatory(loop)
        with ExitStack() as opened:
            topics = TopicRegistry(self.config, self._node_ids, data_dir=self._data_dir)
            opened.callback(topics.close)
            groups = GroupCoordinator(self.config, topics, scheduler=loop, data_dir=self._data_dir, clock=clock)
            groups.share_partitions.on_available = purgatory.check
            opened.callback(groups.close)
            producer_ids = ProducerIdManager(data_dir=self._data_dir, first=topics.next_producer_id())
            features = Features(self.config, self.emulation)
            markers = TransactionMarkers(topics, groups.offsets, purgatory.check, clock)
            transactions = self._open_transactions(markers, producer_ids, features)
            opened.callback(transactions.close)
            expiry = TransactionExpiry(transactions, loop)
            opened.callback(expiry.close)

            def on_change(partition: Partition) -> None:
                # A fetch that waits must hear of a leader that moved and of a topic that is gone; so must a
                # transaction whose markers wait for a leader.
                purgatory.check(partition)
                transactions.resume()

            topics.on_change = on_change
            logs = LogManager(self.config, topics, groups.expire, loop, clock)
            opened.callback(logs.close)
            state = BrokerState(
                config=self.config,
                cluster_id=self._cluster_id_prefix + load_cluster_id(self._data_dir),
                topics=topics,
                groups=groups,
                transactions=transactions,
                producer_ids=producer_ids,
                purgatory=purgatory,
                faults=self.controls.faults,
                loop=loop,
                authentication=await self._open_authentication(),
                features=features,
                clock=clock,
                authorizer=_authorizer(self.config, self._data_dir),
                telemetry=self.telemetry,
                emulation=self.emulation,
            )
            opened.pop_all()  # from here on they are closed by stop()
            self._expiry, self._logs = expiry, logs
        return state

    def _open_transactions(
        self, markers: TransactionMarkers, producer_ids: ProducerIdManager, features: Features
    ) -> TransactionCoordinator:
        transactions = TransactionCoordinator(
            self.config,
            markers,
            producer_ids.generate,
            now=asyncio.get_running_loop().time(),
            features=features,
            data_dir=self._data_dir,
        )
        producer_ids.skip_before(transactions.next_producer_id())
        transactions.resume()
        return transactions

    async def _open_authentication(self) -> Authentication:
        authentication = Authentication(self.config, self._data_dir, _now_ms)
        self._authentications = {}
        for name, endpoint in self._endpoints.items():
            settings = authentication.settings_for(endpoint, await _token_keys(endpoint))
            if settings is not None:
                self._authentications[name] = settings
        return authentication

    def _new_session(self, listener: str) -> SaslSession | None:
        settings = self._authentications.get(listener)
        return None if settings is None else settings.new_session()

    def _start_node(self, node_id: int) -> None:
        node = BrokerNode(node_id, self.state, list(self._endpoints.values()), self._new_session)
        node.server.is_stalled = node_id in self._stalled
        self._watch(node_id, node)
        self._held_ports.release(node_id)
        given = {name: taken for name, each in self._endpoints.items() if (taken := each.sockets.pop(node_id, None))}
        self._ports[node_id] = node.start(self._ports[node_id], given)
        self._running[node_id] = node
        self._advertise(self.state, node_id)

    def _release_ports(self) -> None:
        self._held_ports.release_all()
        for endpoint in self._endpoints.values():
            for given in endpoint.sockets.values():
                given.close()
            endpoint.sockets.clear()

    def _advertise(self, state: BrokerState, node_id: int) -> None:
        for name, endpoint in reversed(self._endpoints.items()):
            racks = self.config.broker_rack
            rack = racks[(node_id - 1) % len(racks)] if racks else None
            address = Node(node_id, endpoint.advertised_host, self._ports[node_id][name], rack)
            state.advertised.setdefault(name, {})[node_id] = address
            state.all_nodes[node_id] = state.running_nodes[node_id] = address  # at the end the first listener's

    def _watch(self, node_id: int, node: BrokerNode) -> None:
        watcher = self._request_watcher
        node.channel.metrics.watcher = None if watcher is None else partial(watcher, node_id)

    def _stop_node(self, node_id: int, state: BrokerState) -> None:
        node = self._running.pop(node_id)
        node.stop()
        self._stopping = [*(each for each in self._stopping if not each.is_stopped), node]
        del state.running_nodes[node_id]
        state.fetch_sessions.pop(node_id, None)
        if self._state is not None:  # else the whole cluster stops: no node takes over
            state.coordinators.note_nodes(self._node_ids, self._running)
            state.topics.node_stopped(node_id)

    @contextmanager
    def _moving_coordinators(self) -> Iterator[None]:
        """Tell each group whose coordinator changes meanwhile."""
        state = self.state
        before = {group.group_id: state.coordinator_for(group.group_id) for group in state.groups}
        try:
            yield
        finally:
            for group_id, node in before.items():
                now = state.coordinator_for(group_id)
                if now is None:
                    state.groups.pause(group_id)
                elif now != node:
                    state.groups.begin_sessions(group_id)

    def _run_logs(self, *, even_active: bool) -> None:
        if self._logs is None:
            raise IllegalStateError(NOT_RUNNING)
        self._logs.run(even_active=even_active)

    def _chosen(self, node_id: int | None) -> list[BrokerNode]:
        if node_id is None:
            return list(self._running.values())
        self._check_node(node_id)
        return [self._running[node_id]] if node_id in self._running else []

    def _check_node(self, node_id: int) -> None:
        if node_id not in self._node_ids:
            raise ValueError(f"there is no node {node_id}: the nodes are {self._node_ids}")

    def _log_records(self, topic: str, index: int) -> list[ConsumedRecord]:
        partition = self.state.topics.partition(topic, index)
        if partition is None:
            raise UnknownTopicOrPartitionError(f"there is no partition {topic}-{index}", topic=topic, partition=index)
        return list(partition.log.records())


def _new_console(broker: DevBroker, *, address: bool | str) -> Console:
    # The one import that points up. It closes no circle: the console knows the broker only as a ``ShownBroker``.
    from ..console import Console

    return Console.of_broker(broker) if address is True else Console.of_broker(broker, address=str(address))


async def _token_keys(endpoint: Endpoint) -> TokenKeys | None:
    """The keys of a listener that takes signed tokens, as they are now. Raises ConfigurationError."""
    config = endpoint.config
    url = config.sasl_oauthbearer_jwks_endpoint_url
    if url is None or not endpoint.has_sasl:
        return None
    from ..security.sasl.oauthbearer import OAUTHBEARER
    from .token_keys import token_keys

    if OAUTHBEARER not in config.sasl_enabled_mechanisms:
        return None
    keys = token_keys(url, config.sasl_oauthbearer_jwks_endpoint_refresh_ms, _now_ms())
    await keys.read()
    return keys


def _now_ms() -> int:
    return int(time.time() * 1000)


def _authorizer(config: BrokerConfig, data_dir: Path | None) -> Authorizer | None:
    if not config.authorizer:
        return None
    file = AclFile(data_dir)
    return Authorizer(
        config.super_users,
        allow_everyone_if_no_acl_found=config.allow_everyone_if_no_acl_found,
        bindings=file.load(),
        save=file.save,
    )
