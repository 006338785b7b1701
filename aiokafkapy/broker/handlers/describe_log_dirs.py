"""DescribeLogDirs (35): the directory in which this node keeps partitions, and their sizes.

versions: 1-4
kept: the one directory, the partitions that this node is a replica of, space on the disk (v4, KIP-827)
dropped: nothing
notes: without a data_dir the directory is called "memory", and has no size. Replicas share a log: each has its size. A
    client that may not ask gets no directories, and from v3 on the reason.
"""

from __future__ import annotations

import shutil
from typing import Final

from ...errors import ClusterAuthorizationFailedError, KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from .registry import Body, Response, register

__all__ = ["handle", "log_dir"]

IN_MEMORY: Final = "memory"
NOT_KNOWN: Final = -1


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error at the top."""
    return context.respond(error_code=error.code, results=[])


@register(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 4), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """The one directory."""
    if not context.may(Operation.DESCRIBE, ResourceType.CLUSTER):
        raise ClusterAuthorizationFailedError
    wanted = None if body.topics is None else {(each.topic, index) for each in body.topics for index in each.partitions}
    topics: dict[str, list[dict[str, object]]] = {}
    for topic in context.state.topics:
        for partition in topic.partitions:
            if context.node_id in partition.replicas and (wanted is None or (topic.name, partition.index) in wanted):
                topics.setdefault(topic.name, []).append(
                    {"partition_index": partition.index, "partition_size": partition.log.size}
                )
    total, usable = _space(context)
    return context.respond(
        error_code=0,
        results=[
            {
                "error_code": 0,
                "log_dir": log_dir(context),
                "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
                "total_bytes": total,
                "usable_bytes": usable,
            }
        ],
    )


def log_dir(context: RequestContext) -> str:
    """The path of the one directory."""
    data_dir = context.state.topics.data_dir
    return IN_MEMORY if data_dir is None else str(data_dir.absolute())


def _space(context: RequestContext) -> tuple[int, int]:
    data_dir = context.state.topics.data_dir
    if data_dir is None:
        return NOT_KNOWN, NOT_KNOWN
    usage = shutil.disk_usage(data_dir)
    return usage.total, usage.free
