"""IncrementalAlterConfigs (44): change options of topics, consumer groups, and subscriptions to clients' metrics.

versions: 0-1
kept: set, delete, append and subtract (lists of topics), validate_only
dropped: broker options: they are given to ``DevBroker(...)`` and do not change; loggers
notes: all changes of one resource are made, or none; one that occurs twice fails, at each place, as in Kafka. Options
    of groups and subscriptions are forgotten in a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from ...errors import InvalidConfigError, InvalidRequestError, KafkaError, UnknownTopicOrPartitionError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ...protocol.constants import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from ..storage.topic_config import TOPIC_OPTIONS, ConfigType
from .registry import Body, Response, entry_error, register

__all__ = ["Changeable", "changeable", "error_response", "handle", "respond_each"]

SET, DELETE, APPEND, SUBTRACT = range(4)
Changes = Mapping[str, str | None]


class Change(Protocol):
    """A change of one resource's options, or with ``validate_only`` the check of it. Raises KafkaError."""

    def __call__(self, context: RequestContext, resource: Struct, *, validate_only: bool) -> None: ...


class Alter(Protocol):
    """Called with the changes, None for back to the default."""

    def __call__(self, changes: Changes, *, validate_only: bool) -> object: ...


class Changeable(NamedTuple):
    """One resource's options."""

    overrides: Mapping[str, object]
    """The options that were set."""
    list_value: Callable[[str], str | None]
    """The present value of an option, None for an option that is not a list."""
    alter: Alter


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every resource."""
    return respond_each(context, body, error)


@register(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each resource by itself."""
    return respond_each(context, body, None, _change)


def changeable(context: RequestContext, resource: Struct) -> Changeable:
    """The options to change, if the client has the right. Raises KafkaError, the answer for this resource."""
    kind, name = resource.resource_type, resource.resource_name
    if kind == TOPIC_RESOURCE:
        return _of_topic(context, name)
    if kind == GROUP_RESOURCE:
        context.check_right(Operation.ALTER_CONFIGS, ResourceType.GROUP, name)
        configs = context.state.groups.configs
        return Changeable(
            configs.overrides(name),
            lambda option: None,
            partial(configs.alter, name),
        )
    if kind in (BROKER_RESOURCE, CLIENT_METRICS_RESOURCE):
        context.check_right(Operation.ALTER_CONFIGS, ResourceType.CLUSTER)
    if kind == BROKER_RESOURCE:
        return Changeable({}, lambda option: "", _alter_broker)
    if kind != CLIENT_METRICS_RESOURCE:
        raise InvalidRequestError(f"Unexpected resource type {kind}")
    telemetry = context.state.telemetry
    return Changeable(
        telemetry.options_of(name),
        lambda option: None,  # nothing can be added to its lists, as in Kafka
        partial(telemetry.configure, name),
    )


def respond_each(
    context: RequestContext, body: Body, error: KafkaError | None, change: Change | None = None
) -> Response:
    """The answer: an error for all, or a change of each and its outcome."""
    responses = []
    times = Counter((resource.resource_type, resource.resource_name) for resource in body.resources)
    for resource in body.resources:
        failure = error
        try:
            if change is not None:
                if times[resource.resource_type, resource.resource_name] > 1:
                    raise InvalidRequestError("Each resource must appear at most once.")
                change(context, resource, validate_only=body.validate_only)
        except KafkaError as refusal:
            failure = refusal
        responses.append(
            {
                **entry_error(failure),
                "resource_type": resource.resource_type,
                "resource_name": resource.resource_name,
            }
        )
    return context.respond(responses=responses)


def _alter_broker(changes: Changes, *, validate_only: bool) -> None:
    # Tools delete options that nobody has set: kafka-reassign-partitions.sh the throttles of its copying.
    if any(value is not None for value in changes.values()):
        raise InvalidConfigError("the dev broker's own options are set when it is made: DevBroker(option=...)")


def _of_topic(context: RequestContext, name: str) -> Changeable:
    context.check_right(Operation.ALTER_CONFIGS, ResourceType.TOPIC, name)
    context.check_topic(name)
    topic = context.state.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"This server does not host the topic {name}.", topic=name)
    config = topic.config

    def list_value(option: str) -> str | None:
        known = TOPIC_OPTIONS.get(option)
        return config.value(option) if known is not None and known.kind is ConfigType.LIST else None

    return Changeable(config.overrides, list_value, partial(context.state.topics.alter_config, name))


def _change(context: RequestContext, resource: Struct, *, validate_only: bool) -> None:
    options = changeable(context, resource)
    options.alter(_changes(options, resource.configs), validate_only=validate_only)


def _changes(options: Changeable, entries: Iterable[Struct]) -> Changes:
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
            changes[entry.name] = _changed_list(options, entry)
    return changes


def _changed_list(options: Changeable, entry: Struct) -> str:
    name = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}.get(entry.config_operation)
    if name is None:
        raise InvalidRequestError(f"Unsupported operation type {entry.config_operation}")
    value = options.list_value(entry.name)
    if value is None:
        raise InvalidConfigError(f"Can't {name} to key {entry.name} because its type is not LIST.")
    present = [part for part in value.split(",") if part]
    given = [part.strip() for part in entry.value.split(",")]
    if entry.config_operation == APPEND:
        return ",".join([*present, *(part for part in given if part not in present)])
    return ",".join(part for part in present if part not in given)
