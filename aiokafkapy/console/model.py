"""The data that the console shows: clusters, topics, groups, transactions, clients, requests, faults.

Owns the shapes that sources fill in and the page reads, by these names, as JSON. Pure: it has no clock and does no I/O.
Kafka's counterparts are the descriptions of its ``Admin``.

Rules: None stands for a number that the source cannot know; the page shows a dash, not 0; times are
milliseconds since the epoch, rates are per second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Final, cast

from ..common import JsonLike

__all__ = [
    "ApiTimes",
    "Client",
    "Cluster",
    "Committed",
    "FaultEvent",
    "Group",
    "GroupDetail",
    "Lag",
    "Member",
    "Node",
    "Partition",
    "RequestRow",
    "Sample",
    "Topic",
    "TopicDetail",
    "TrafficPoint",
    "Transaction",
    "as_json",
    "fields_as_json",
]


@dataclass(frozen=True, slots=True)
class Node:
    """A broker of the cluster."""

    node_id: int
    address: str
    _: KW_ONLY
    is_running: bool = True
    is_stalled: bool = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster itself. ``kind`` is for people: "dev broker", "dev broker as Kafka 2.8", or "cluster"."""

    cluster_id: str
    kind: str
    nodes: Sequence[Node]
    controller_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic in a list."""

    name: str
    partitions: int
    replicas: int
    records: int
    size: int | None
    without_leader: int
    is_internal: bool = False
    records_per_second: float | None = None
    bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of a group in a partition."""

    group_id: str
    committed: int
    lag: int


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition; ``read_committed`` reads up to ``stable_offset``."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: Sequence[int]
    in_sync: Sequence[int]
    first_offset: int | None
    end_offset: int | None
    stable_offset: int | None = None
    size: int | None = None
    records_per_second: float | None = None
    lags: Sequence[Lag] = ()


@dataclass(frozen=True, slots=True)
class TopicDetail:
    """One topic with its partitions and its own options."""

    topic: Topic
    partitions: Sequence[Partition]
    configs: Mapping[str, str | None]


KIP_848: Final = "consumer (KIP-848)"
"""The kind of groups of the newer protocol; older groups have the kind that their members named."""

KIP_932: Final = "share (KIP-932)"
"""The kind of share groups, whose members share records and commit no offsets."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group in a list. ``lag`` is the sum over its partitions."""

    group_id: str
    state: str
    kind: str
    protocol: str
    members: int | None
    lag: int | None
    topics: Sequence[str] = ()
    coordinator: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """A member, with its partitions as ``topic-partition``."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    assignment: Sequence[str]
    _: KW_ONLY
    is_leader: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset; ``lag`` is None if the end is not known. ``member`` is the client id of its reader."""

    topic: str
    partition: int
    committed: int
    end_offset: int | None
    lag: int | None
    member: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """One group with members and offsets."""

    group: Group
    members: Sequence[Member]
    offsets: Sequence[Committed]


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id. ``started_ms`` is None unless a transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int | None
    started_ms: int | None
    partitions: Sequence[str]
    groups: Sequence[str] = ()
    coordinator: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A connection. ``versions`` are the versions of its last request of each API."""

    connection_id: str
    node_id: int
    client_id: str
    software: str
    principal: str
    listener: str
    protocol: str
    state: str
    requests: int
    requests_per_second: float
    throttle_ms: float
    versions: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """A finished request; ``number`` counts all requests. Durations are milliseconds; sizes are bytes.

    ``outcome`` is "ok", the name of the first error in the answer, or "closed".
    """

    number: int
    at_ms: int
    node_id: int
    client_id: str
    connection_id: str
    api: str
    version: int
    size: int
    answer_size: int
    queue_ms: float
    local_ms: float
    remote_ms: float
    send_ms: float
    throttle_ms: float
    total_ms: float
    outcome: str


@dataclass(frozen=True, slots=True)
class ApiTimes:
    """An API's requests since the start, and the times of its latest ones."""

    api: str
    requests: int
    errors: int
    p50_ms: float
    p99_ms: float
    longest_ms: float


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """A control that was called. ``is_end`` marks a call that ends another; ``error`` is the reason why it was not
    carried out; ``fault`` is the name of the fault that it armed, by which the fault can be ended.
    """

    number: int
    at_ms: int
    control: str
    text: str
    is_end: bool = False
    error: str | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class TrafficPoint:
    """One point of the timeline; rates since the point before."""

    at_ms: int
    records: float
    size: float | None
    requests: float | None
    errors: float | None


@dataclass(frozen=True, slots=True)
class Sample:
    """Totals that only grow, by topic: records, and bytes if known; and of the whole cluster."""

    records: Mapping[str, int]
    sizes: Mapping[str, int] | None
    requests: int | None
    errors: int | None
    connections: int | None
    partitions: int


def as_json(value: object) -> JsonLike:
    """Data of this module as JSON's types."""
    kind: type = type(value)
    if kind in _PLAIN:
        return cast("JsonLike", value)
    if _field_names(kind):
        return fields_as_json(value)
    if isinstance(value, Enum):
        return as_json(value.value)
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return cast("JsonLike", value)


def fields_as_json(value: object) -> dict[str, JsonLike]:
    """One of this module's dataclasses as a JSON object."""
    kind: type = type(value)
    return {name: as_json(getattr(value, name)) for name in _field_names(kind)}


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass; empty for any other type. Cached, because a message has thousands of objects."""
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else ()
