"""ListTransactions (66): the transactional ids that this node coordinates.

versions: 0-2
kept: filters by state, by producer id, by the age of a transaction (v1+), by a pattern of the id (v2+)
dropped: nothing
notes: tools ask every node and put the answers together. The pattern is Python's, where Kafka's is RE2's; ordinary
    patterns mean the same in both; an invalid one is INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

import re

from ...errors import InvalidRegularExpressionError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.transaction import TransactionMetadata, TransactionState
from ..security.acls import Operation, ResourceType
from .registry import Body, Response, register

__all__ = ["handle"]

STATES = {state.value for state in TransactionState}


@register(ApiKey.LIST_TRANSACTIONS, versions=(0, 2))
def handle(context: RequestContext, body: Body) -> Response:
    """States that do not exist are named in the answer, and match nothing."""
    found = [
        {
            "transactional_id": transaction.transactional_id,
            "producer_id": transaction.producer_id,
            "transaction_state": transaction.state.value,
        }
        for transaction in context.state.transactions
        if _is_ours(context, transaction) and _is_wanted(context, body, transaction)
    ]
    unknown = [state for state in body.state_filters if state not in STATES]
    return context.respond(error_code=0, unknown_state_filters=unknown, transaction_states=found)


def _is_ours(context: RequestContext, transaction: TransactionMetadata) -> bool:
    node = context.state.coordinator_for(transaction.transactional_id)
    if node is None or node.node_id != context.node_id:
        return False
    return context.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id)


def _is_wanted(context: RequestContext, body: Body, transaction: TransactionMetadata) -> bool:
    if body.state_filters and transaction.state.value not in body.state_filters:
        return False
    if body.producer_id_filters and transaction.producer_id not in body.producer_id_filters:
        return False
    duration_ms = getattr(body, "duration_filter", -1)
    if duration_ms >= 0:
        is_open = transaction.state is TransactionState.ONGOING
        if not is_open or context.state.timestamp_ms() - transaction.started_ms <= duration_ms:
            return False
    pattern = getattr(body, "transactional_id_pattern", None)
    try:
        return not pattern or re.fullmatch(pattern, transaction.transactional_id) is not None
    except re.error as error:
        raise InvalidRegularExpressionError(f"{pattern!r}: {error}") from None
