"""The common part of all APIs of groups and transactions: check the client's right, and that this node coordinates.

Registers nothing. All nodes share one coordinator of each kind; only one of them answers for a group or a
transactional id, because clients must learn to find it, and to follow when it stops.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import (
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    NotCoordinatorError,
    ProducerFencedError,
    TransactionAbortableError,
)
from ..context import RequestContext
from ..security.acls import Operation, ResourceType
from .registry import Body, Response

__all__ = [
    "as_a_partition_leader",
    "check_group",
    "check_transactional_id",
    "fencing_code",
    "no_producer_id",
]


def check_group(context: RequestContext, operation: Operation, group_id: str) -> None:
    """Raise GroupAuthorizationFailedError, or NotCoordinatorError when another node coordinates the group."""
    context.check_right(operation, ResourceType.GROUP, group_id)
    _check_coordinator(context, group_id)


def check_transactional_id(context: RequestContext, operation: Operation, transactional_id: str) -> None:
    """Raise TransactionalIdAuthorizationFailedError, or NotCoordinatorError when another node coordinates the id."""
    context.check_right(operation, ResourceType.TRANSACTIONAL_ID, transactional_id)
    _check_coordinator(context, transactional_id)


def fencing_code(context: RequestContext, error: KafkaError, fenced_from_version: int) -> int:
    """The error's code: INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED before this version (KIP-360)."""
    if isinstance(error, ProducerFencedError) and context.api_version < fenced_from_version:
        return InvalidProducerEpochError.code or -1
    return error.code or -1


def no_producer_id(context: RequestContext, body: Body, error: KafkaError, fenced_from_version: int) -> Response:
    """The error, and no id."""
    code = fencing_code(context, error, fenced_from_version)
    return context.respond(error_code=code, producer_id=-1, producer_epoch=-1)


def _check_coordinator(context: RequestContext, key: str) -> None:
    node = context.state.coordinator_for(key)
    if node is None:
        raise CoordinatorNotAvailableError
    if node.node_id != context.node_id:
        raise NotCoordinatorError


@contextmanager
def as_a_partition_leader(context: RequestContext, abortable_from_version: int) -> Iterator[None]:
    """The coordinator's errors as Produce and TxnOffsetCommit give them: PRODUCER_FENCED is INVALID_PRODUCER_EPOCH, and
    before this version TRANSACTION_ABORTABLE is INVALID_TXN_STATE (KIP-890).
    """
    try:
        yield
    except ProducerFencedError as error:
        raise InvalidProducerEpochError(str(error)) from None
    except TransactionAbortableError as error:
        if context.api_version < abortable_from_version:
            raise InvalidTxnStateError(str(error)) from None
        raise
