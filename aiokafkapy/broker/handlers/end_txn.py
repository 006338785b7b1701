"""EndTxn (26): commit or abort a transaction.

versions: 0-5
kept: both outcomes; the next transaction's producer id and epoch (v5, KIP-890), retries of an end whose answer was lost
dropped: nothing
notes: the answer comes when the outcome is decided, as in Kafka; here the markers are written by then too, unless a
    partition has no leader or ``controls`` hold them. Before v2 a fenced producer hears of it as
    INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.transaction import ProducerIdAndEpoch
from ..security.acls import Operation
from .coordinator_checks import check_transactional_id, no_producer_id
from .registry import Body, Response, register

__all__ = ["handle"]

FENCED_FROM_VERSION: Final = 2
BUMPS_FROM_VERSION: Final = 5


@register(ApiKey.END_TXN, versions=(0, 5), error=partial(no_producer_id, fenced_from_version=FENCED_FROM_VERSION))
def handle(context: RequestContext, body: Body) -> Response:
    """The version of the request is the producer's transaction version."""
    check_transactional_id(context, Operation.WRITE, body.transactional_id)
    following = context.state.transactions.end(
        body.transactional_id,
        ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
        is_commit=body.committed,
        version=2 if context.api_version >= BUMPS_FROM_VERSION else 1,
    )
    return context.respond(error_code=0, producer_id=following.producer_id, producer_epoch=following.epoch)
