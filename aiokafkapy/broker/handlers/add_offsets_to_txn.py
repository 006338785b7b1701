"""AddOffsetsToTxn (25): take a group's offsets into a transaction.

versions: 0-4
kept: all of it
dropped: nothing
notes: Kafka adds the group's partition of ``__consumer_offsets``; there is no such topic here, so the transaction has
    the group itself. Producers of version 2 (KIP-890) do not ask.
"""

from __future__ import annotations

from typing import Final

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.transaction import Addition, ProducerIdAndEpoch
from ..security.acls import Operation, ResourceType
from .coordinator_checks import check_transactional_id, fencing_code
from .registry import Body, Response, register

__all__ = ["handle"]

FENCED_FROM_VERSION: Final = 2


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error at the top."""
    return context.respond(error_code=fencing_code(context, error, FENCED_FROM_VERSION))


@register(ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Take the group in; whether it exists is checked when the offsets come."""
    check_transactional_id(context, Operation.WRITE, body.transactional_id)
    context.check_right(Operation.READ, ResourceType.GROUP, body.group_id)
    state = context.state
    producer = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
    addition = Addition(body.transactional_id, producer, groups=(body.group_id,))
    state.transactions.add(addition, context.now, state.timestamp_ms())
    return context.respond(error_code=0)
