"""``Source``: the source of the console's data; and ``Feed``, the reading of records for the page.

Owns the calls that every source has. ``BrokerSource`` is a dev broker in this process, ``ClusterSource`` any cluster.

Rules:

- ``Abilities`` says which data a source cannot know, and the page has no view for that;
- a call raises KafkaError with a text for people, or ValueError for a wrong argument;
- ``Feed.poll`` holds the loop for at most some milliseconds at a time, and reports the records that it skipped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

from ..common import ConsumedRecord, Headers, JsonLike
from .model import (
    ApiTimes,
    Client,
    Cluster,
    Group,
    GroupDetail,
    RequestRow,
    Sample,
    Topic,
    TopicDetail,
    Transaction,
)

if TYPE_CHECKING:
    from .shown_broker import ShownBroker

__all__ = [
    "Abilities",
    "Feed",
    "NewRecord",
    "Outcome",
    "Place",
    "Polled",
    "RequestSource",
    "Source",
    "Start",
    "Written",
]

Outcome: TypeAlias = Literal["aborted", "pending"]
"""The reason why ``read_committed`` does not return a record: its transaction was aborted, or that or an earlier one
is open.
"""

MOST_EXAMINED: Final = 3_000
"""The most records that a poll decodes."""
MOST_PLACES: Final = 10_000
_PLACE: Final = re.compile(r"(\d{1,9})=(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Abilities:
    """The kinds of data that a source has, for which the page shows views."""

    faults: bool = False
    requests: bool = False
    clients: bool = False


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be written. ``partition`` None: chosen by the key, as by Java's default partitioner."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Written:
    """The place of a written record."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Polled:
    """Records of one poll, and the number passed over unread because there were too many.

    ``note`` tells people which partitions are not read, and why. ``unreadable`` counts further records that could not
    be decoded.
    """

    records: Sequence[ConsumedRecord]
    passed_over: int = 0
    is_at_end: bool = True
    note: str = ""
    unreadable: int = 0


class Place(NamedTuple):
    """A record of a topic."""

    partition: int
    offset: int


class Feed(Protocol):
    """The records of a topic, from positions on."""

    async def poll(self, most: int, *, newest: bool) -> Polled:
        """The next records, at most ``most``; with ``newest`` older ones are passed over if there are more. New
        partitions of the topic, and a topic that is made again, are read too, from their beginning.
        """

    def positions(self) -> Mapping[int, int]:
        """By partition, the offset after the last record that ``poll`` returned."""

    async def outcomes(self, places: Collection[Place]) -> Mapping[Place, Outcome]:
        """The records among these that ``read_committed`` does not return."""

    async def close(self) -> None:
        """Close its connections, if any."""


class RequestSource(Protocol):
    """The request log of a source that has one."""

    @property
    def left_out(self) -> int:
        """The number of requests that the log did not keep."""

    def rows_after(self, number: int, most: int) -> list[RequestRow]:
        """The rows after the one of this number, oldest first; the newest ``most`` of them."""

    def times(self) -> list[ApiTimes]:
        """The figures of each API, the busiest first."""


class Source(Protocol):
    """The calls that the page needs."""

    @property
    def abilities(self) -> Abilities:
        """The kinds of data that it has."""

    @property
    def broker(self) -> ShownBroker | None:
        """The dev broker of this process, for its controls; None for another cluster."""

    @property
    def request_log(self) -> RequestSource | None:
        """None without ``abilities.requests``."""

    @property
    def samples_always(self) -> bool:
        """True if it is sampled while no page is open, because that costs no request."""

    @property
    def tick(self) -> float:
        """Seconds between two samples."""

    async def start(self) -> None:
        """Make ready for requests; an unreachable cluster is not an error yet."""

    async def stop(self) -> None:
        """Close its clients, if it has any."""

    async def sample(self) -> Sample:
        """The present totals. Raises KafkaError and OSError if the cluster cannot be asked."""

    async def cluster(self) -> Cluster:
        """The brokers, stopped ones included if they are known. Raises KafkaError, as all calls below."""

    async def topics(self) -> list[Topic]:
        """All topics, by name, without rates: the watch adds those."""

    async def topic(self, name: str) -> TopicDetail:
        """One topic with its partitions. UnknownTopicOrPartitionError."""

    async def groups(self) -> list[Group]:
        """All groups, by name."""

    async def group(self, group_id: str) -> GroupDetail:
        """One group with its members and offsets. GroupIdNotFoundError."""

    async def transactions(self) -> list[Transaction]:
        """All transactional ids; those with an open transaction first."""

    async def clients(self) -> list[Client]:
        """The open connections; empty without ``abilities.clients``."""

    async def feed(self, topic: str, partition: int | None, start: Start, *, is_committed: bool = False) -> Feed:
        """Records from ``start`` on; with ``is_committed`` only those that ``read_committed`` returns."""

    async def produce(self, record: NewRecord) -> Written:
        """Write a record, and return its place once it is acknowledged."""

    def describe_faults(self) -> JsonLike:
        """The faults in force, as JSON's types; None without ``abilities.faults``."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a feed: "latest", "earliest", "last" (the last N records over all partitions), "offset", "time", or
    "at", a separate offset for each partition.
    """

    kind: str = "latest"
    number: int = 0
    places: tuple[tuple[int, int], ...] = ()

    def offset_in(self, partition: int, first: int, end: int, partitions: int) -> int | None:
        """The offset in a partition from ``first`` to ``end``, one of so many; None if it takes a look-up."""
        match self.kind:
            case "earliest":
                return first
            case "last":
                return max(first, end - -(-self.number // max(1, partitions)))
            case "offset":
                return min(max(first, self.number), end)
            case "at":
                return min(max(first, dict(self.places).get(partition, end)), end)
            case "time":
                return None
        return end

    @classmethod
    def of(cls, text: str) -> Start:
        """Read ``latest``, ``earliest``, ``last:100``, ``offset:5``, ``time:1700000000000``, or ``at:0=5,1=7``, an
        offset for each partition. ValueError.
        """
        kind, colon, number = text.partition(":")
        if kind in ("latest", "earliest") and not colon:
            return cls(kind)
        if kind in ("last", "offset", "time") and number.isdigit() and len(number) < 19:
            return cls(kind, int(number))
        if kind == "at":
            places = [_PLACE.fullmatch(each) for each in number.split(",")[:MOST_PLACES]]
            if all(places):
                return cls(kind, places=tuple((int(one[1]), int(one[2])) for one in places if one))
        raise ValueError(f"from={text!r}: write latest, earliest, last:N, offset:N or time:MILLISECONDS")
