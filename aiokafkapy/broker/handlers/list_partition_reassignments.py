"""ListPartitionReassignments (46): the reassignments in progress; the dev broker has none.

versions: 0
kept: the check of the client's right
dropped: nothing
notes: AlterPartitionReassignments is done when it is answered.
"""

from __future__ import annotations

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from .registry import Body, Response, entry_error, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error at the top."""
    return context.respond(**entry_error(error), topics=[])


@register(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """None."""
    context.check_right(Operation.DESCRIBE, ResourceType.CLUSTER)
    return context.respond(error_code=0, topics=[])
