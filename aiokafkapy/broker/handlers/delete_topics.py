"""DeleteTopics (20): delete topics and their records.

versions: 1-6
kept: by name, by id (v6), ``delete_topic_enable``
dropped: the time-out: a topic is gone when the answer is
notes: a partition's waiting fetches are answered when it goes. Any node answers.
"""

from __future__ import annotations

from uuid import UUID

from ...errors import KafkaError, TopicDeletionDisabledError, UnknownTopicIdError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from . import Body, Response, error_message, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every topic."""
    return context.respond(responses=[_result(name, topic_id, error) for name, topic_id in _requested(body)])


@register(ApiKey.DELETE_TOPICS, versions=(1, 6), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each topic by itself."""
    return context.respond(responses=[_delete(context, name, topic_id) for name, topic_id in _requested(body)])


def _requested(body: Body) -> list[tuple[str | None, UUID | None]]:
    names = getattr(body, "topic_names", None)
    if names is not None:
        return [(name, None) for name in names]
    return [(topic.name, topic.topic_id) for topic in body.topics]


def _delete(context: RequestContext, name: str | None, topic_id: UUID | None) -> dict[str, object]:
    topics = context.state.topics
    try:
        if not context.state.config.delete_topic_enable:
            raise TopicDeletionDisabledError("delete_topic_enable is off")
        if name is None:
            topic = topics.by_id(topic_id)
            if topic is None:
                raise UnknownTopicIdError(f"There is no topic of id {topic_id}.")
            # Not by its name before the client may know it.
            context.check_right(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
            name = topic.name
        else:
            topic = topics.get(name)
            topic_id = topic.topic_id if topic is not None else None
        context.check_right(Operation.DELETE, ResourceType.TOPIC, name)
        context.check_topic(name)
        topics.delete(name)
    except KafkaError as error:
        return _result(name, topic_id, error)
    return _result(name, topic_id, None)


def _result(name: str | None, topic_id: UUID | None, error: KafkaError | None) -> dict[str, object]:
    return {
        "name": name,
        "topic_id": topic_id,
        "error_code": error.code if error else 0,
        "error_message": error_message(error) if error else None,
    }
