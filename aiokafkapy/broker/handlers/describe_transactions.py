"""DescribeTransactions (65): the coordinator's view of transactional ids.

versions: 0-0
kept: all of it
dropped: partitions of ``__consumer_offsets``, which does not exist here: a group in a transaction is not shown
notes: topics that the client may not see are left out.
"""

from __future__ import annotations

from ...errors import KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from .coordinator_checks import check_transactional_id
from .registry import Body, Response, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Response:
    """The error on every id."""
    return context.respond(transaction_states=[_failed(each, error) for each in body.transactional_ids])


@register(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), error=error_response)
def handle(context: RequestContext, body: Body) -> Response:
    """Each id by itself."""
    return context.respond(transaction_states=[_describe(context, each) for each in body.transactional_ids])


def _describe(context: RequestContext, transactional_id: str) -> dict[str, object]:
    try:
        check_transactional_id(context, Operation.DESCRIBE, transactional_id)
        transaction = context.state.transactions.get(transactional_id)
    except KafkaError as error:
        return _failed(transactional_id, error)
    topics: dict[str, list[int]] = {}
    for place in sorted(transaction.partitions):
        if context.may(Operation.DESCRIBE, ResourceType.TOPIC, place.topic):
            topics.setdefault(place.topic, []).append(place.partition)
    return {
        "error_code": 0,
        "transactional_id": transactional_id,
        "transaction_state": transaction.state.value,
        "transaction_timeout": transaction.timeout_ms,
        "transaction_start_time": transaction.started_ms,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "topics": [{"topic": name, "partitions": indexes} for name, indexes in topics.items()],
    }


def _failed(transactional_id: str, error: KafkaError) -> dict[str, object]:
    return {
        "error_code": error.code,
        "transactional_id": transactional_id,
        "transaction_state": "",
        "transaction_timeout": 0,
        "transaction_start_time": 0,
        "producer_id": -1,
        "producer_epoch": -1,
    }
