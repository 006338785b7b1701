"""DeleteRecords (21): make the log start later.

versions: 0-2
kept: any offset up to the high watermark, -1 for the high watermark itself
dropped: the time-out: replicas share the log
notes: bytes are given back by whole batches in memory and by whole segments on disk.
"""

from __future__ import annotations

from functools import partial

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ..context import RequestContext
from ..security.acls import Operation
from .leadership import answer_each, check_leader, find_partition, find_topic
from .registry import Body, Response, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every partition."""
    return answer_each(context, body, lambda _, each: _failed(each, error))


@register(ApiKey.DELETE_RECORDS, versions=(0, 2), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each partition by itself."""
    return answer_each(context, body, partial(_delete, context))


def _delete(context: RequestContext, name: str, requested: Struct) -> dict[str, object]:
    try:
        partition = find_partition(find_topic(context, Operation.DELETE, name), requested.partition_index)
        context.check_topic(name, partition.index)
        check_leader(context, partition)
        start = partition.log.delete_records(requested.offset)
    except KafkaError as error:
        return _failed(requested, error)
    context.state.purgatory.check(partition)
    return {"partition_index": partition.index, "low_watermark": start, "error_code": 0}


def _failed(requested: Struct, error: KafkaError) -> dict[str, object]:
    return {"partition_index": requested.partition_index, "low_watermark": -1, "error_code": error.code}
