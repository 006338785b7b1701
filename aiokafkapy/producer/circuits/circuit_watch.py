"""``CircuitWatch``: reports outcomes to ``Circuits``, and changes of circuits to the log and the waiting records.

It is a ``PassingWatch``, and knows neither requests nor answers. Java has no counterpart.

Rule: records that wait to be accepted when their circuit opens fail with it; those that are accepted keep their time.

Events: ``circuit.opened`` (warning; topic, failures, error, retry_in), ``circuit.closed`` (info; topic, seconds).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from ...errors import (
    DeliveryTimeoutError,
    KafkaError,
    KafkaTimeoutError,
    MetadataTimeoutError,
    TopicAuthorizationFailedError,
)
from ...observability import RateLimitedLogger, get_logger
from ..accumulator.producer_batch import ProducerBatch
from ..observation.batch_watch import BatchWatcher, PassingWatch
from ..options.circuit_options import CircuitBreaker
from .circuits import Circuits, CircuitStatus

__all__ = ["CircuitWatch"]

_OF_WAITING: Final = (DeliveryTimeoutError, MetadataTimeoutError, TopicAuthorizationFailedError)
"""Errors of records that were never accepted, which say something of the cluster."""

_logger = get_logger(__name__)


class CircuitWatch(PassingWatch):
    """Watches the batches of one producer. ``on_open`` is called with the topic of a circuit that opened, None for all,
    and may be called while an answer is being handled.
    """

    def __init__(
        self,
        options: CircuitBreaker,
        then: BatchWatcher | None,
        clock: Callable[[], float],
        on_open: Callable[[str | None], object],
        *,
        has_transactions: bool = False,
    ) -> None:
        super().__init__(then)
        self.circuits = Circuits(options, self._on_change, has_transactions=has_transactions)
        self._clock = clock
        self._on_open = on_open
        self._log = RateLimitedLogger(_logger)

    def completed(self, batch: ProducerBatch, base_offset: int, now: float) -> None:
        """The broker has the batch."""
        self.circuits.succeeded(batch.topic_partition[0], now)
        super().completed(batch, base_offset, now)

    def failed(self, batch: ProducerBatch, records: int, error: BaseException, now: float) -> None:
        """``records`` of the batch's records fail."""
        self.circuits.failed(batch.topic_partition[0], error, now)
        super().failed(batch, records, error, now)

    def overdue(self, topics: Iterable[str], error: KafkaError) -> None:
        """The time of single records of these topics was over."""
        now = self._clock()
        for topic in topics:
            self.circuits.failed(topic, error, now)

    def refused(self, error: KafkaError) -> None:
        """A record that waited to be accepted was refused."""
        if isinstance(error, _OF_WAITING) and error.topic is not None and not _is_its_own(error):
            self.circuits.failed(error.topic, error, self._clock())

    # internals

    def _on_change(self, topic: str, status: CircuitStatus) -> None:
        if status.state == "closed":
            self._log.settle(topic)
            _logger.info("circuit.closed", topic=status.topic, seconds=round(status.open_for, 3))
            return
        fields = {
            "topic": status.topic,
            "failures": status.failures,
            "error": status.last_error,
            "retry_in": round(status.retry_in, 3),
        }
        self._log.log(topic, self._clock(), logging.WARNING, "circuit.opened", **fields)
        self._on_open(status.topic)


def _is_its_own(error: KafkaError) -> bool:
    """True when the record waited for its serializer, or for a partition that its topic does not have."""
    cause = error.__cause__ if isinstance(error, DeliveryTimeoutError) and error.__cause__ is not None else error
    if isinstance(cause, MetadataTimeoutError):
        return cause.partition is not None
    return type(cause) is KafkaTimeoutError
