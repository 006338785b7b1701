"""CreatePartitions (37): give a topic more partitions.

versions: 0-3
kept: the new total, manual assignments of the new ones, validate_only
dropped: the time-out; THROTTLING_QUOTA_EXCEEDED
notes: keyed records go elsewhere afterwards, as in Kafka. A name that occurs twice fails, all its occurrences as one,
    as in Kafka. Any node answers.
"""

from __future__ import annotations

from collections import Counter

from ...errors import InvalidRequestError, KafkaError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from ..storage.replica_placer import check_new_partitions
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every topic."""
    return context.respond(results=[_result(requested.name, error) for requested in body.topics])


@register(ApiKey.CREATE_PARTITIONS, versions=(0, 3), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each topic by itself. Too many partitions in all fail every topic."""
    topics = context.state.topics
    times = Counter(requested.name for requested in body.topics)
    once = [requested for requested in body.topics if times[requested.name] == 1]
    check_new_partitions(
        sum(
            max(0, requested.count - len(topic.partitions))
            for requested in once
            if (topic := topics.get(requested.name)) is not None
        )
    )
    twice = InvalidRequestError("Duplicate topic name.")
    results = [_result(name, twice) for name, count in times.items() if count > 1]
    results += [_grow(context, requested, validate_only=body.validate_only) for requested in once]
    return context.respond(results=results)


def _grow(context: RequestContext, requested: Struct, *, validate_only: bool) -> dict[str, object]:
    assignments = None
    if requested.assignments is not None:
        assignments = [list(assignment.broker_ids) for assignment in requested.assignments]
    try:
        context.check_right(Operation.ALTER, ResourceType.TOPIC, requested.name)
        context.check_topic(requested.name)
        context.state.topics.add_partitions(requested.name, requested.count, assignments, validate_only=validate_only)
    except KafkaError as error:
        return _result(requested.name, error)
    return _result(requested.name, None)


def _result(name: str, error: KafkaError | None) -> dict[str, object]:
    return {
        "name": name,
        **entry_error(error),
    }
