"""ElectLeaders (43): make the preferred replica, or any available one, the leader.

versions: 0-2
kept: preferred elections, unclean ones (v1+) for partitions without a leader; all partitions with null
dropped: the time-out: a leader leads before the answer
notes: replicas share a log, so an unclean election loses nothing. With null, partitions that need no election are left
    out of the answer, as in Kafka.
"""

from __future__ import annotations

from typing import NamedTuple

from ...errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidRequestError,
    KafkaError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from ..storage.topics import Partition
from .registry import Body, Response, entry_code, entry_error, register

__all__ = ["handle"]

PREFERRED, UNCLEAN = 0, 1


class Election(NamedTuple):
    """A partition's election, and its error, None for a leader that was elected."""

    topic: str
    partition: int
    error: KafkaError | None


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """At the top (v1+), and on every partition that is named."""
    return _respond(context, [Election(name, index, error) for name, index in _wanted(context, body)], error)


@register(ApiKey.ELECT_LEADERS, versions=(0, 2), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each partition by itself."""
    context.check_right(Operation.ALTER, ResourceType.CLUSTER)
    election_type = getattr(body, "election_type", PREFERRED)
    if election_type not in (PREFERRED, UNCLEAN):
        raise InvalidRequestError(f"{election_type} is not an election type")
    results = [
        Election(name, index, _elect(context, name, index, election_type)) for name, index in _wanted(context, body)
    ]
    if body.topic_partitions is None:
        results = [each for each in results if not isinstance(each.error, ElectionNotNeededError)]
    return _respond(context, results)


def _wanted(context: RequestContext, body: Body) -> list[tuple[str, int]]:
    if body.topic_partitions is None:
        return [(topic.name, partition.index) for topic in context.state.topics for partition in topic.partitions]
    return [(topic.topic, index) for topic in body.topic_partitions for index in topic.partitions]


def _elect(context: RequestContext, name: str, index: int, election_type: int) -> KafkaError | None:
    partition = context.state.topics.partition(name, index)
    try:
        if partition is None:
            raise UnknownTopicOrPartitionError(f"No such partition as {name}-{index}")
        context.state.topics.elect(partition, _candidate(context, partition, election_type))
    except KafkaError as error:
        return error
    return None


def _candidate(context: RequestContext, partition: Partition, election_type: int) -> int:
    running = context.state.in_sync_replicas(partition)
    preferred = partition.replicas[0]
    if partition.leader is not None and (election_type == UNCLEAN or partition.leader == preferred):
        raise ElectionNotNeededError
    if election_type == PREFERRED and preferred not in running:
        raise PreferredLeaderNotAvailableError(f"The preferred leader {preferred} is not running")
    if not running:
        raise EligibleLeadersNotAvailableError
    return preferred if preferred in running else running[0]


def _respond(context: RequestContext, results: list[Election], top: KafkaError | None = None) -> Response:
    topics: dict[str, list[dict[str, object]]] = {}
    for name, index, error in results:
        topics.setdefault(name, []).append({"partition_id": index, **entry_error(error)})
    return context.respond(
        error_code=entry_code(top),
        replica_election_results=[{"topic": name, "partition_result": found} for name, found in topics.items()],
    )
