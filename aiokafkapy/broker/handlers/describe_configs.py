"""DescribeConfigs (32): the options of topics and of nodes.

versions: 1-4
kept: topics (all options, the source of each value, synonyms), brokers (our own options, read only, by the node
    itself), consumer groups, subscriptions to clients' metrics, key filters
dropped: documentation texts; loggers, which have no options here
notes: no option can be set for all nodes, so a broker of the empty name has no options.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import InvalidRequestError, KafkaError, UnknownTopicOrPartitionError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ...protocol.constants import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from ..config import BrokerConfig
from ..context import RequestContext
from ..coordination.group_configs import GROUP_OPTIONS
from ..security.acls import Operation, ResourceType
from ..storage.topic_config import TOPIC_OPTIONS, ConfigType, TopicConfig
from ..telemetry import SUBSCRIPTION_OPTIONS
from .registry import Body, Response, entry_error, register

__all__ = ["handle", "topic_configs"]

# ConfigSource
_DYNAMIC_TOPIC, _STATIC_BROKER, _DEFAULT, _CLIENT_METRICS, _GROUP = 1, 4, 5, 7, 8


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every resource."""
    return context.respond(results=[_result(resource, error, ()) for resource in body.resources])


@register(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each resource by itself."""
    return context.respond(results=[_describe(context, resource) for resource in body.resources])


def topic_configs(config: TopicConfig) -> list[dict[str, object]]:
    """All options of a topic, as DescribeConfigs writes them (CreateTopics takes less of each)."""
    entries = []
    for option in TOPIC_OPTIONS.values():
        value = config.value(option.name)
        source = _DEFAULT if config.is_default(option.name) else _DYNAMIC_TOPIC
        entries.append(_entry(option.name, value, source, option.kind, is_read_only=False))
    return entries


def _describe(context: RequestContext, resource: Struct) -> dict[str, object]:
    try:
        if resource.resource_type == TOPIC_RESOURCE:
            context.check_right(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, resource.resource_name)
            context.check_topic(resource.resource_name)
            entries = _of_topic(context, resource.resource_name)
        elif resource.resource_type == BROKER_RESOURCE:
            context.check_right(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
            entries = _of_broker(context, resource.resource_name)
        elif resource.resource_type == GROUP_RESOURCE:
            context.check_right(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, resource.resource_name)
            entries = _of_group(context, resource.resource_name)
        elif resource.resource_type == CLIENT_METRICS_RESOURCE:
            context.check_right(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
            entries = _of_subscription(context, resource.resource_name)
        else:
            # As KafkaApis, which knows loggers: a client without the right does not learn that they have no options
            # here.
            if resource.resource_type == BROKER_LOGGER_RESOURCE:
                context.check_right(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
            raise InvalidRequestError(f"Unexpected resource type {resource.resource_type}")
    except KafkaError as error:
        return _result(resource, error, ())
    wanted = resource.configuration_keys
    return _result(resource, None, [entry for entry in entries if wanted is None or entry["name"] in wanted])


def _of_topic(context: RequestContext, name: str) -> list[dict[str, object]]:
    topic = context.state.topics.get(name)
    if topic is None:
        raise UnknownTopicOrPartitionError(f"This server does not host the topic {name}.", topic=name)
    return topic_configs(topic.config)


def _of_group(context: RequestContext, name: str) -> list[dict[str, object]]:
    if not name:
        raise InvalidRequestError("Group name must not be empty")
    configs = context.state.groups.configs
    own = configs.overrides(name)
    return [
        _entry(
            option,
            str(configs.value(name, option)),
            _GROUP if option in own else _DEFAULT,
            ConfigType.STRING if GROUP_OPTIONS[option] is None else ConfigType.INT,
            is_read_only=False,
        )
        for option in GROUP_OPTIONS
    ]


def _of_subscription(context: RequestContext, name: str) -> list[dict[str, object]]:
    if not name:
        raise InvalidRequestError("Client metrics subscription name must not be empty")
    own = context.state.telemetry.options_of(name)
    return [
        _entry(
            option,
            own.get(option, default),
            _CLIENT_METRICS if option in own else _DEFAULT,
            ConfigType.INT if default else ConfigType.LIST,
            is_read_only=False,
        )
        for option, default in SUBSCRIPTION_OPTIONS.items()
    ]


def _of_broker(context: RequestContext, name: str) -> list[dict[str, object]]:
    if not name:
        return []
    node_id = context.node_id
    try:
        is_asked = int(name) == node_id
    except ValueError:
        raise InvalidRequestError(f"Broker id must be an integer, but it is: {name}") from None
    if not is_asked:
        raise InvalidRequestError(f"Unexpected broker id, expected {node_id} or empty string, but received {name}")
    ids = (
        _entry(option, str(node_id), _STATIC_BROKER, ConfigType.INT, is_read_only=True)
        for option in ("broker.id", "node.id")
    )
    return [*ids, *_of_config(context.state.config, context.state.all_nodes[node_id].rack)]


def _of_config(config: BrokerConfig, rack: str | None) -> list[dict[str, object]]:
    values = dict(config) | {"broker_rack": rack}  # each node has one of the racks
    return [
        _entry(
            name.replace("_", "."),
            None if value is None or config.is_secret(name) else _text(value),
            _STATIC_BROKER if name in config.model_fields_set else _DEFAULT,
            ConfigType.STRING,
            is_read_only=True,
            is_sensitive=config.is_secret(name),
        )
        for name, value in values.items()
    ]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _entry(
    name: str, value: str | None, source: int, kind: ConfigType, *, is_read_only: bool, is_sensitive: bool = False
) -> dict[str, object]:
    return {
        "name": name,
        "value": value,
        "read_only": is_read_only,
        "config_source": source,
        "is_sensitive": is_sensitive,
        "synonyms": [{"name": name, "value": value, "source": source}],
        "config_type": kind,
    }


def _result(resource: Struct, error: KafkaError | None, configs: Sequence[dict[str, object]]) -> dict[str, object]:
    return {
        **entry_error(error),
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": configs,
    }
