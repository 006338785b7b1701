"""Asking a broker for a producer id: InitProducerId for the idempotent producer.

Owns the request and the meaning of its errors; the id itself, and the time of the next request, are the transaction
manager's. Kafka's counterparts are ``TransactionManager.bumpIdempotentEpochAndResetIdIfNeeded`` and
``InitProducerIdHandler``.

Rules: the first request goes out as soon as a node is ready, so that the first record need not wait for it; after a
failure it is repeated, with back-off, only while records wait. A lasting error fails the waiting records, and gives the
remedy; the next record asks again: permissions may have been granted.

Events: ``producer_id.failed`` (warning; error; debug while a broker that has just started has no ids to give yet),
``producer_id.ready`` (debug; producer_id, epoch).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

from ...client.nodes.client_request import ClientRequest, ClientResponse
from ...client.nodes.sender_client import SenderClient
from ...common import MAX_INT
from ...errors import (
    ClusterAuthorizationFailedError,
    CoordinatorLoadInProgressError,
    DisconnectedError,
    KafkaError,
    UnsupportedVersionError,
    make,
)
from ...observability import RateLimitedLogger, get_logger
from ...protocol.api import INIT_PRODUCER_ID_BEFORE_TWO_PHASE_COMMIT, ApiKey
from ...protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..accumulator.record_accumulator import RecordAccumulator
from ..identity.transaction_manager import TransactionManager
from ..producer_metadata import ProducerMetadata

__all__ = ["ProducerIdRequests"]

NEVER: Final = math.inf

_REMEDIES: Final[dict[type[KafkaError], str]] = {
    UnsupportedVersionError: "the broker has no producer ids: write enable_idempotence=False",
    ClusterAuthorizationFailedError: "idempotent writes are not allowed: grant IDEMPOTENT_WRITE on the cluster or "
    "WRITE on the topic, or write enable_idempotence=False",
}

_logger = get_logger(__name__)


class ProducerIdRequests:
    """Gets the transaction manager its producer id."""

    __slots__ = ("_accumulator", "_client", "_clock", "_log", "_manager", "_metadata", "_wakeup")

    def __init__(
        self,
        client: SenderClient,
        metadata: ProducerMetadata,
        accumulator: RecordAccumulator,
        manager: TransactionManager,
        *,
        clock: Callable[[], float],
        wakeup: Callable[[], None],
    ) -> None:
        self._client = client
        self._metadata = metadata
        self._accumulator = accumulator
        self._manager = manager
        self._clock = clock
        self._wakeup = wakeup
        self._log = RateLimitedLogger(_logger)

    def maybe_send(self, now: float) -> float:
        """Ask if an id is needed and a node can be asked; returns the seconds until the clock allows the next try."""
        manager = self._manager
        delay = manager.time_to_init_producer_id(now)
        if delay is None:
            return NEVER
        if manager.last_error is not None and not self._accumulator.has_queued():
            return NEVER  # it failed, and no record needs it: an idle producer stays idle
        if delay > 0:
            return delay
        node = self._client.least_loaded_node(now)
        if node is None:
            self._metadata.request_update()
            return NEVER  # woken when a node can be tried again
        if not self._client.ready(node, now):
            return self._client.connection_delay(node, now)
        request = ClientRequest(
            node.node_id,
            ApiKey.INIT_PRODUCER_ID,
            _build,
            decode=InitProducerIdResponse.read,
            callback=self._handle_response,
            max_version=INIT_PRODUCER_ID_BEFORE_TWO_PHASE_COMMIT,
        )
        manager.handle_init_producer_id_sent()
        self._client.post(request, now)
        return NEVER

    # internals

    def _handle_response(self, response: ClientResponse) -> None:
        error = _error_of(response)
        if error is None:
            body = response.body
            self._manager.handle_init_producer_id(body.producer_id, body.producer_epoch)
            _logger.debug("producer_id.ready", producer_id=body.producer_id, epoch=body.producer_epoch)
        else:
            now = self._clock()
            self._manager.handle_init_producer_id_failed(error, now)
            # No warning when the broker has only just started, or when the producer is closing and needs no id.
            passes = isinstance(error, CoordinatorLoadInProgressError) or not self._client.is_active
            level = logging.DEBUG if passes else logging.WARNING
            self._log.log("producer_id", now, level, "producer_id.failed", error=str(error))
            if not error.retriable:
                self._accumulator.abort_batches(error)
                self._manager.reset_sequences()
        self._wakeup()


def _build(version: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(version, MAX_INT)


def _error_of(response: ClientResponse) -> KafkaError | None:
    """The error of a response, with its remedy; None without an error."""
    error = response.error
    if error is None and response.disconnected:
        error = DisconnectedError(f"node {response.request.node_id} disconnected")
    if error is None and int(response.body.error_code):
        error = make(int(response.body.error_code))
    if error is None:
        return None
    remedy = _REMEDIES.get(type(error))
    text = f"no producer id: {error}" + (f"; {remedy}" if remedy else "")
    told = type(error)(text)
    told.__cause__ = error
    return told
