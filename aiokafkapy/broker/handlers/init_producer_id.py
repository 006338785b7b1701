"""InitProducerId (22): a producer id for an idempotent or transactional producer.

versions: 0-6
kept: a new id with epoch 0 for every producer without a transactional id; with one the id that belongs to it, and the
    next epoch; two-phase commit (v6, KIP-939), also for the next producer of the name, which Kafka 4 does not have yet
dropped: nothing
notes: from v3 on a producer may name its id and epoch; without a transactional id Kafka gives it a new id all the same
    (the client bumps its own epoch), and an id without an epoch, or the reverse, is INVALID_REQUEST.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from ...common import milliseconds
from ...errors import InvalidRequestError, TransactionalIdAuthorizationFailedError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..coordination.transaction import NO_PRODUCER, ProducerIdAndEpoch
from ..security.acls import Operation, ResourceType
from .coordinator_checks import check_transactional_id, no_producer_id
from .registry import Body, Response, register

__all__ = ["handle"]

FENCED_FROM_VERSION: Final = 4


@register(
    ApiKey.INIT_PRODUCER_ID, versions=(0, 6), error=partial(no_producer_id, fenced_from_version=FENCED_FROM_VERSION)
)
def handle(context: RequestContext, body: Body) -> Response:
    """Any node answers, as in Kafka when there is no transactional id."""
    expected = ProducerIdAndEpoch(getattr(body, "producer_id", -1), getattr(body, "producer_epoch", -1))
    if (expected.producer_id == -1) != (expected.epoch == -1):
        raise InvalidRequestError("A producer id and its epoch belong together.")
    if body.transactional_id is not None:
        check_transactional_id(context, Operation.WRITE, body.transactional_id)
        timeout_ms = milliseconds(body.transaction_timeout)
        has_two_phases = getattr(body, "enable2_pc", False)
        if has_two_phases:
            _check_two_phase_commit(context, body.transactional_id)
        taken = context.state.transactions.init_producer_id(
            body.transactional_id,
            timeout_ms,
            None if expected == NO_PRODUCER else expected,
            has_two_phases=has_two_phases,
            keeps_prepared=getattr(body, "keep_prepared_txn", False),
        )
        return context.respond(
            error_code=0,
            producer_id=taken.producer.producer_id,
            producer_epoch=taken.producer.epoch,
            ongoing_txn_producer_id=taken.ongoing.producer_id,
            ongoing_txn_producer_epoch=taken.ongoing.epoch,
        )
    if not _may_write_any_topic(context):
        context.check_right(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
    return context.respond(error_code=0, producer_id=context.state.producer_ids.generate(), producer_epoch=0)


def _check_two_phase_commit(context: RequestContext, transactional_id: str) -> None:
    if not context.state.config.transaction_two_phase_commit_enable:
        raise TransactionalIdAuthorizationFailedError("transaction.two.phase.commit.enable is false")
    context.check_right(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, transactional_id)


def _may_write_any_topic(context: RequestContext) -> bool:
    authorizer, connection = context.state.authorizer, context.connection
    return authorizer is None or authorizer.authorize_by_resource_type(
        connection.principal, connection.remote_host, Operation.WRITE, ResourceType.TOPIC
    )
