"""The arguments of a request handler: the request's surroundings and the cluster's state.

``BrokerState`` is the whole cluster of one ``DevBroker``, shared by all its nodes: replicas are shared storage, so a
leader is only an id and an epoch. ``RequestContext`` is one request on one connection of one node. Handlers reach
everything through it and keep nothing between requests themselves.

This module must not know sockets, queues or any API's schema. Kafka's counterpart is ``RequestContext`` together with
the members of ``KafkaApis`` (``MetadataCache``, ``ReplicaManager``, ``GroupCoordinator``).

Rules:

- ``now`` is loop time and is passed down; ``timestamp_ms()`` is wall time and only ever ends up inside records.
- A handler is synchronous. A handler that must wait returns a future, and the request waits for it; when the
  connection ends first, that future is cancelled: check ``done()`` before resolving it.
- A handler asks ``may`` or ``check_right`` about each thing that it changes or shows, before it reveals that it exists.
- Faults of a whole request are applied around the handler, which never sees them; those narrowed to a topic or
  partition are the handler's to apply, by asking ``topic_error`` for each partition it serves.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from ..common import Node
from ..errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from ..protocol.writer import PlainMessage
from .clock import WallClock
from .coordination.coordinators import Coordinators
from .coordination.fetch_sessions import FetchSessions
from .coordination.share_sessions import ShareSession, ShareSessions
from .entity_quotas import EntityQuotas, FoundQuota
from .faults.armed_faults import Fault, Faults, broker_error
from .security.acls import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType
from .telemetry import ClientTelemetry

if TYPE_CHECKING:
    from ..protocol.codec import RequestHeader
    from .config import BrokerConfig
    from .coordination.group_coordinator import GroupCoordinator
    from .coordination.purgatory import Purgatory
    from .coordination.transaction_coordinator import TransactionCoordinator
    from .emulation.model import Emulation
    from .features import Features
    from .security.authentication import Authentication
    from .security.authorizer import Authorizer
    from .security.sasl_session import SaslSession
    from .storage.producer_state import ProducerIdManager
    from .storage.topics import Partition, TopicRegistry

__all__ = ["ANONYMOUS", "BrokerState", "ConnectionInfo", "RequestContext"]

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that is not authenticated."""

_REFUSALS: Final[Mapping[ResourceType, type[KafkaError]]] = {
    ResourceType.TOPIC: TopicAuthorizationFailedError,
    ResourceType.GROUP: GroupAuthorizationFailedError,
    ResourceType.CLUSTER: ClusterAuthorizationFailedError,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailedError,
}


@dataclass(slots=True)
class ConnectionInfo:
    """The other end of a connection: enough for quotas, member host names, rights and log lines."""

    connection_id: str
    listener: str
    remote_host: str
    security_protocol: str = "PLAINTEXT"
    principal: str = ANONYMOUS
    session: SaslSession | None = None
    software: str = ""
    """The client's library and its version, as its ApiVersions gives them (KIP-511); an old client gives none."""
    on_closed: dict[Hashable, Callable[[], object]] = field(default_factory=dict)
    """Called when the connection has ended; the callers choose the keys, so that each callback is here once."""

    def authenticate(self, token: bytes, now: float, now_ms: int) -> tuple[bytes, int]:
        """See ``SaslSession.authenticate``; a completed authentication gives the connection its principal."""
        if self.session is None:
            raise IllegalSaslStateError(f"the listener {self.listener} has no SASL")
        answer = self.session.authenticate(token, now, now_ms)
        self.principal = self.session.principal or self.principal
        return answer


@dataclass(slots=True)
class BrokerState:
    """The cluster's state, which outlives requests and is the same on every node."""

    config: BrokerConfig
    cluster_id: str
    topics: TopicRegistry
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    producer_ids: ProducerIdManager
    purgatory: Purgatory
    faults: Faults
    loop: asyncio.AbstractEventLoop
    authentication: Authentication
    features: Features
    clock: WallClock = field(default_factory=WallClock)
    quotas: EntityQuotas = field(default_factory=EntityQuotas)
    fetch_sessions: dict[int, FetchSessions] = field(default_factory=dict)
    share_sessions: dict[int, ShareSessions] = field(default_factory=dict)
    authorizer: Authorizer | None = None  # None: everybody may do everything
    telemetry: ClientTelemetry = field(default_factory=ClientTelemetry)
    emulation: Emulation | None = None  # None: this broker as it is

    # Every node of the cluster by id, and those of them that are running; a stopped node keeps its address. Both have
    # the first listener's addresses; ``advertised`` has those of every listener, by its name.
    all_nodes: dict[int, Node] = field(default_factory=dict)
    running_nodes: dict[int, Node] = field(default_factory=dict)
    advertised: dict[str, dict[int, Node]] = field(default_factory=dict)

    _running_stamp: tuple[int, ...] = ()

    coordinators: Coordinators = field(default_factory=Coordinators)

    def now(self) -> float:
        """Loop time in seconds: for deadlines."""
        return self.loop.time()

    def timestamp_ms(self) -> int:
        """Wall time in milliseconds: for records and nothing else. ``controls.advance_clock`` moves it."""
        return self.clock()

    @property
    def running_node_ids(self) -> list[int]:
        """Ids of the nodes that answer, ascending."""
        return sorted(self.running_nodes)

    @property
    def running_stamp(self) -> tuple[int, ...]:
        """The nodes that answer: the same object until there are others."""
        running = tuple(self.running_nodes)
        if running != self._running_stamp:
            self._running_stamp = running
        return self._running_stamp

    @property
    def controller_id(self) -> int:
        """The lowest running node, -1 when none runs."""
        return min(self.running_nodes, default=-1)

    @property
    def selects_by_rack(self) -> bool:
        """Whether consumers are sent to the replica in their rack (KIP-392)."""
        return self.config.replica_selector_class is not None

    def fetch_sessions_of(self, node_id: int) -> FetchSessions:
        """A node's fetch sessions."""
        if node_id not in self.fetch_sessions:
            slots = self.config.max_incremental_fetch_session_cache_slots
            self.fetch_sessions[node_id] = FetchSessions(slots, partial(random.randint, 1, 2**31 - 1))
        return self.fetch_sessions[node_id]

    def share_sessions_of(self, node_id: int) -> ShareSessions:
        """A node's share sessions; the records of a member go back with its session."""
        shares = self.groups.share_partitions

        def on_end(session: ShareSession) -> None:
            shares.release(session.group_id, session.member_id, session.partitions, node_id)

        def on_empty(group_id: str) -> None:
            shares.out_of_use(group_id, node_id)

        if node_id not in self.share_sessions:
            most = self.config.group_share_max_share_sessions
            self.share_sessions[node_id] = ShareSessions(most, on_end, on_empty)
        return self.share_sessions[node_id]

    def coordinator_for(self, key: str) -> Node | None:
        """The running node that coordinates a group or transactional id; any node answers for it in fact."""
        node_id = self.coordinators.of(key, self.all_nodes, self.running_nodes)
        return None if node_id is None else self.running_nodes[node_id]

    def in_sync_replicas(self, partition: Partition) -> list[int]:
        """The partition's replicas that run; ``min.insync.replicas`` is compared with their number."""
        return [node_id for node_id in partition.replicas if node_id in self.running_nodes]


@dataclass(slots=True)
class RequestContext:
    """One request: its origin, its header and the way to build its response."""

    node_id: int
    header: RequestHeader
    connection: ConnectionInfo
    state: BrokerState

    # A fault counts once per request, not once per partition.
    used_faults: set[Fault] = field(default_factory=set)

    @property
    def api_key(self) -> int:
        """The request's API key."""
        return int(self.header.api_key)

    @property
    def api_version(self) -> int:
        """The version the request was sent in, and the response is to be written in."""
        return int(self.header.api_version)

    @property
    def client_id(self) -> str:
        """The client id of the header; an absent one is the empty string."""
        return self.header.client_id or ""

    @property
    def now(self) -> float:
        """Loop time in seconds."""
        return self.state.now()

    def respond(self, **fields: object) -> PlainMessage:
        """The response body of this request's API and version; fields that the version does not have are dropped."""
        return PlainMessage(self.api_key, self.api_version, fields)

    # limits

    def own_quota(self, key: str) -> FoundQuota | None:
        """A quota that administrators gave this client; without one the broker's own option counts."""
        return self.state.quotas.find(key, self.connection.principal.partition(":")[2], self.client_id)

    def most_fetched_bytes(self, max_bytes: int) -> int:
        """``max_bytes`` capped by the broker's limit and the client's quota: no answer may exceed the quota of all
        windows but one, or the client would be throttled for long afterwards
        (``ClientQuotaManager.getMaxValueInQuotaWindow``).
        """
        config, own = self.state.config, self.own_quota("consumer_byte_rate")
        most = min(max_bytes, config.fetch_max_bytes)
        rate = config.consumer_byte_rate if own is None else own.limit
        if rate is None:
            return most
        return int(min(most, rate * (config.quota_window_num - 1) * config.quota_window_size_seconds))

    # rights

    def may(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Whether the client's principal may do this; without an authorizer everybody may."""
        authorizer = self.state.authorizer
        if authorizer is None:
            return True
        connection = self.connection
        return authorizer.authorize(connection.principal, connection.remote_host, operation, resource_type, name)

    def check_right(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raise the resource's own AuthorizationFailedError, which says the missing right, unless it may be done."""
        if not self.may(operation, resource_type, name):
            raise _REFUSALS[resource_type](
                f"{self.connection.principal} may not {operation.name} {resource_type.name} {name!r}"
            )

    def authorized_operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """The operations that the principal may do, as the bit field of a response."""
        return sum(1 << each for each in SUPPORTED_OPERATIONS[resource_type] if self.may(each, resource_type, name))

    # faults

    def topic_error(self, topic: str, partition: int | None = None, *, after: bool = False) -> int:
        """The error code that ``controls.fail_next`` has set for this partition, 0 for none.

        To be asked once per partition and before anything is changed; with ``after=True`` (Produce: after the append)
        it is the error of a request whose work was done.
        """
        return self.state.faults.topic_error(self, topic, partition, after=after)

    def check_topic(self, topic: str, partition: int | None = None) -> None:
        """Raise the error of ``topic_error``, for handlers whose errors per topic are exceptions."""
        code = self.topic_error(topic, partition)
        if code:
            raise broker_error(code)

    def node(self, node_id: int) -> Node:
        """A node, running or not, with the address of the listener that the request came by."""
        return self.state.advertised[self.connection.listener][node_id]

    # the cluster

    def nodes(self) -> Sequence[Node]:
        """The nodes that run, by ascending id, with the addresses of the listener that the request came by."""
        return [self.node(node_id) for node_id in self.state.running_node_ids]
