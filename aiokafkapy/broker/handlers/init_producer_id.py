"""InitProducerId (22): a producer id for an idempotent producer.

versions: 0-5
kept: a new id with epoch 0 for every producer without a transactional id
dropped: transactional ids (INVALID_REQUEST): there are no transactions yet
notes: from v3 on a producer may name its id and epoch; without a transactional id Kafka gives it a new id all the same
    (the client bumps its own epoch), and an id without an epoch, or the reverse, is INVALID_REQUEST.
"""

from __future__ import annotations

from ...errors import InvalidRequestError, KafkaError
from ...protocol.api import ApiKey
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from . import Body, register

__all__ = ["handle"]


def error_response(context: RequestContext, body: Body, error: KafkaError) -> Body:
    """The error, and no id."""
    return context.respond(error_code=error.code, producer_id=-1, producer_epoch=-1)


@register(ApiKey.INIT_PRODUCER_ID, versions=(0, 5), error=error_response)
def handle(context: RequestContext, body: Body) -> Body:
    """Any node answers, as in Kafka when there is no transactional id."""
    if body.transactional_id is not None:
        context.check_right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id)
        raise InvalidRequestError("This broker has no transactions yet.")
    if (getattr(body, "producer_id", -1) == -1) != (getattr(body, "producer_epoch", -1) == -1):
        raise InvalidRequestError("A producer id and its epoch belong together.")
    if not _may_write_any_topic(context):
        context.check_right(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
    return context.respond(error_code=0, producer_id=context.state.producer_ids.generate(), producer_epoch=0)


def _may_write_any_topic(context: RequestContext) -> bool:
    authorizer, connection = context.state.authorizer, context.connection
    return authorizer is None or authorizer.authorize_by_resource_type(
        connection.principal, connection.remote_host, Operation.WRITE, ResourceType.TOPIC
    )
