"""IncrementalAlterConfigs (44): change options of topics.

versions: 0-1
kept: set, delete, append and subtract (lists) on topics, validate_only
dropped: broker options: they are given to ``DevBroker(...)`` and do not change; loggers, groups, client metrics
notes: all changes of one resource are made, or none.
"""

from __future__ import annotations

from typing import Any, Final

from ...errors import InvalidConfigError, InvalidRequestError, KafkaError, UnknownTopicOrPartitionError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from ..storage.topic_config import TOPIC_OPTIONS, TopicConfig
from . import Body, error_message, register
from .describe_configs import BROKER, TOPIC

__all__ = ["handle"]

SET, DELETE, APPEND, SUBTRACT = range(4)
LIST_TYPE: Final = 7


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Body:
    """The error on every resource."""
    return context.respond(responses=[_result(resource, error) for resource in body.resources])


@register(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), error=error_response)
def handle(context: RequestContext, body: Body) -> Body:
    """Each resource by itself."""
    return context.respond(responses=[_alter(context, resource, body.validate_only) for resource in body.resources])


def _alter(context: RequestContext, resource: Any, validate_only: bool) -> dict[str, Any]:
    try:
        if resource.resource_type == BROKER:
            context.check_right(Operation.ALTER_CONFIGS, ResourceType.CLUSTER)
            raise InvalidConfigError("the dev broker's own options are set when it is made: DevBroker(option=...)")
        if resource.resource_type != TOPIC:
            raise InvalidRequestError(f"Unexpected resource type {resource.resource_type}")
        name = resource.resource_name
        context.check_right(Operation.ALTER_CONFIGS, ResourceType.TOPIC, name)
        context.check_topic(name)
        topic = context.state.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError(f"This server does not host the topic {name}.", topic=name)
        changes = _changes(topic.config, resource.configs)
        context.state.topics.alter_config(name, changes, validate_only=validate_only)
    except KafkaError as error:
        return _result(resource, error)
    return _result(resource, None)


def _changes(config: TopicConfig, entries: Any) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for entry in entries:
        if entry.name in changes:
            raise InvalidRequestError(f"Error due to duplicate config keys: {entry.name}")
        if entry.config_operation == DELETE:
            changes[entry.name] = None
        elif entry.value is None:
            raise InvalidConfigError(f"Null value not supported for {entry.name}")
        elif entry.config_operation == SET:
            changes[entry.name] = entry.value
        else:
            changes[entry.name] = _changed_list(config, entry)
    return changes


def _changed_list(config: TopicConfig, entry: Any) -> str:
    option = TOPIC_OPTIONS.get(entry.name)
    if option is None or option.type_code != LIST_TYPE or entry.config_operation not in (APPEND, SUBTRACT):
        raise InvalidConfigError(
            f"Config {entry.name} does not allow operation {entry.config_operation}: it is no list"
        )
    present = [part for part in config.value(entry.name).split(",") if part]
    given = [part.strip() for part in entry.value.split(",")]
    if entry.config_operation == APPEND:
        return ",".join([*present, *(part for part in given if part not in present)])
    return ",".join(part for part in present if part not in given)


def _result(resource: Any, error: KafkaError | None) -> dict[str, Any]:
    return {
        "error_code": error.code if error else 0,
        "error_message": error_message(error) if error else None,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }
