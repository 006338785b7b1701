"""TxnOffsetCommit (28): a group's offsets, to be committed with a transaction.

versions: 0-5
kept: members' checks (v3+, KIP-447), leader epochs (v2+), metadata up to offset.metadata.max.bytes; v5 takes the group
    into the transaction, before it AddOffsetsToTxn must have done so (KIP-890)
dropped: nothing
notes: the group's coordinator answers, and not the transaction's. TRANSACTION_ABORTABLE is INVALID_TXN_STATE before v4.
"""

from __future__ import annotations

from typing import Final

from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.classic_group import MemberIdentity
from ..coordination.transaction import Addition, ProducerIdAndEpoch
from ..security.acls import Operation, ResourceType
from .coordinator_checks import as_a_partition_leader, check_group
from .offset_commit import error_response, offsets_of, respond
from .registry import Body, Response, register

__all__ = ["handle"]

ABORTABLE_FROM_VERSION: Final = 4
ADDS_FROM_VERSION: Final = 5


@register(ApiKey.TXN_OFFSET_COMMIT, versions=(0, 5), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Take the offsets that pass the checks, all at once."""
    context.check_right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id)
    check_group(context, Operation.READ, body.group_id)
    offsets, codes = offsets_of(context, body)
    if offsets:
        _join_transaction(context, body)
        identity = MemberIdentity(
            body.group_id,
            getattr(body, "member_id", ""),
            getattr(body, "group_instance_id", None),
            getattr(body, "generation_id", -1),
        )
        context.state.groups.commit_in_transaction(identity, body.producer_id, offsets)
    return respond(context, body, codes, 0)


def _join_transaction(context: RequestContext, body: Body) -> None:
    state, producer = context.state, ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
    with as_a_partition_leader(context, ABORTABLE_FROM_VERSION):
        if context.api_version >= ADDS_FROM_VERSION:
            addition = Addition(body.transactional_id, producer, groups=(body.group_id,), version=2)
            state.transactions.add(addition, context.now, state.timestamp_ms())
        else:
            state.transactions.verify(body.transactional_id, producer, group=body.group_id)
