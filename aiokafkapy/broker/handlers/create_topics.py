"""CreateTopics (19): make topics.

versions: 2-7
kept: partitions, replication factor, manual assignments, configs, validate_only, ids (v7), the configs made (v5+)
dropped: the time-out: a topic exists before the answer
notes: a name that occurs twice fails, all its occurrences as one, as in Kafka. Any node answers; Kafka forwards to the
    controller.
"""

from __future__ import annotations

from collections import Counter

from ...errors import InvalidPartitionsError, InvalidRequestError, KafkaError, TopicAuthorizationFailedError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from ..storage.replica_placer import check_new_partitions
from ..storage.topics import Topic
from .describe_configs import topic_configs
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every topic."""
    return context.respond(topics=[_failed(requested.name, error) for requested in body.topics])


@register(ApiKey.CREATE_TOPICS, versions=(2, 7), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each topic by itself: one that fails does not stop the others. Too many partitions in all fail every topic."""
    default = context.state.config.num_partitions
    check_new_partitions(
        sum(
            len(requested.assignments)
            or max(0, default if requested.num_partitions == -1 else requested.num_partitions)
            for requested in body.topics
        )
    )
    occurrences = Counter(requested.name for requested in body.topics)
    results = {}
    for requested in body.topics:
        try:
            if occurrences[requested.name] > 1:
                raise InvalidRequestError(f"Duplicate topic name: {requested.name}")
            results[requested.name] = _created(context, _create(context, requested, validate_only=body.validate_only))
        except KafkaError as error:
            results[requested.name] = _failed(requested.name, error)
    return context.respond(topics=list(results.values()))


def _create(context: RequestContext, requested: Struct, *, validate_only: bool) -> Topic:
    if not context.may(Operation.CREATE, ResourceType.CLUSTER):
        context.check_right(Operation.CREATE, ResourceType.TOPIC, requested.name)
    context.check_topic(requested.name)
    assignments = {entry.partition_index: list(entry.broker_ids) for entry in requested.assignments}
    if assignments and (requested.num_partitions != -1 or requested.replication_factor != -1):
        raise InvalidRequestError("Both numPartitions or replicationFactor and replicasAssignments were set.")
    if len(assignments) != len(requested.assignments):
        raise InvalidPartitionsError("A partition is assigned twice.")
    return context.state.topics.create(
        requested.name,
        requested.num_partitions,
        {entry.name: entry.value for entry in requested.configs},
        replication_factor=requested.replication_factor,
        assignments=assignments or None,
        validate_only=validate_only,
    )


def _created(context: RequestContext, topic: Topic) -> dict[str, object]:
    made = {"name": topic.name, "topic_id": topic.topic_id, "error_code": 0, "error_message": None}
    if not context.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
        return {**made, "topic_config_error_code": TopicAuthorizationFailedError.code, "configs": None}
    return {
        **made,
        "num_partitions": len(topic.partitions),
        "replication_factor": len(topic.partitions[0].replicas),
        "configs": [
            {name: entry[name] for name in ("name", "value", "read_only", "config_source", "is_sensitive")}
            for entry in topic_configs(topic.config)
        ],
    }


def _failed(name: str, error: KafkaError) -> dict[str, object]:
    return {"name": name, **entry_error(error), "configs": ()}
