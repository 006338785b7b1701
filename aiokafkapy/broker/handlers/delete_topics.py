"""DeleteTopics (20): delete topics and their records.

versions: 1-6
kept: by name, by id (v6), ``delete_topic_enable``
dropped: the time-out: a topic is deleted before the answer
notes: a partition's waiting fetches are answered when it goes. A topic that is named twice fails, all its occurrences
    as one, as in Kafka. Any node answers.
"""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from ...errors import InvalidRequestError, KafkaError, TopicDeletionDisabledError, UnknownTopicIdError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every topic."""
    return context.respond(responses=[_result(name, topic_id, error) for name, topic_id in _requested(body)])


@register(ApiKey.DELETE_TOPICS, versions=(1, 6), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each topic by itself."""
    if not context.state.config.delete_topic_enable:
        raise TopicDeletionDisabledError("delete_topic_enable is off")
    times = Counter(_requested(body))
    by_id = {topic_id for name, topic_id in times if name is None}
    results = []
    # Names first: a name and an id may mean the same topic.
    for name, topic_id in sorted(times, key=lambda each: each[0] is None):
        is_twice = times[name, topic_id] > 1
        if name is not None:
            results.append(_delete_named(context, name, topic_id, by_id, is_twice=is_twice))
        elif topic_id in by_id or is_twice:
            results.append(_delete_by_id(context, topic_id, is_twice=is_twice))
    return context.respond(responses=results)


def _requested(body: Body) -> list[tuple[str | None, UUID | None]]:
    names = getattr(body, "topic_names", None)
    if names is not None:
        return [(name, None) for name in names]
    return [(topic.name, topic.topic_id) for topic in body.topics]


def _delete_named(
    context: RequestContext, name: str, given_id: UUID | None, by_id: set[UUID | None], *, is_twice: bool
) -> dict[str, object]:
    """``by_id`` has the ids of the request; the id of a topic that is named as well is taken out."""
    topic = context.state.topics.get(name)
    topic_id = topic.topic_id if topic is not None else None
    try:
        if given_id is not None:
            raise InvalidRequestError("You may not specify both topic name and topic id.")
        if is_twice:
            raise InvalidRequestError("Duplicate topic name.")
        context.check_right(Operation.DELETE, ResourceType.TOPIC, name)
        context.check_topic(name)
        if topic_id is not None and topic_id in by_id:
            by_id.remove(topic_id)
            given_id = topic_id
            raise InvalidRequestError("The provided topic name maps to an ID that was already supplied.")
        context.state.topics.delete(name)
    except KafkaError as error:
        return _result(name, given_id, error)
    return _result(name, topic_id, None)


def _delete_by_id(context: RequestContext, topic_id: UUID | None, *, is_twice: bool) -> dict[str, object]:
    name = None
    try:
        if topic_id is None:
            raise InvalidRequestError("Neither topic name nor id were specified.")
        if is_twice:
            raise InvalidRequestError("Duplicate topic id.")
        topic = context.state.topics.by_id(topic_id)
        if topic is None:
            raise UnknownTopicIdError(f"There is no topic of id {topic_id}.")
        # The answer has the name only if the client has the right to know it.
        context.check_right(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        name = topic.name
        context.check_right(Operation.DELETE, ResourceType.TOPIC, name)
        context.check_topic(name)
        context.state.topics.delete(name)
    except KafkaError as error:
        return _result(name, topic_id, error)
    return _result(name, topic_id, None)


def _result(name: str | None, topic_id: UUID | None, error: KafkaError | None) -> dict[str, object]:
    return {
        "name": name,
        "topic_id": topic_id,
        **entry_error(error),
    }
