"""AlterReplicaLogDirs (34): move replicas to another directory of their node.

versions: 1-2
kept: the checks
dropped: the move: a node has one directory, so every other one is LOG_DIR_NOT_FOUND
notes: a replica that is in this directory already is not an error, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import KafkaError, LogDirNotFoundError, ReplicaNotAvailableError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from .describe_log_dirs import log_dir
from .registry import Body, Response, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every partition."""
    return _respond(context, body, lambda path, name, index: error.code)


@register(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(1, 2), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each replica by itself."""
    context.check_right(Operation.ALTER, ResourceType.CLUSTER)
    return _respond(context, body, lambda path, name, index: _move(context, path, name, index))


def _move(context: RequestContext, path: str, name: str, index: int) -> int | None:
    partition = context.state.topics.partition(name, index)
    if path != log_dir(context):
        return LogDirNotFoundError.code
    if partition is None or context.node_id not in partition.replicas:
        return ReplicaNotAvailableError.code
    return 0


def _respond(context: RequestContext, body: Body, code_of: Callable[[str, str, int], int | None]) -> Response:
    results = [
        {
            "topic_name": topic.name,
            "partitions": [
                {"partition_index": index, "error_code": code_of(entry.path, topic.name, index)}
                for index in topic.partitions
            ],
        }
        for entry in body.dirs
        for topic in entry.topics
    ]
    return context.respond(results=results)
