"""Errors that this side finds: time-outs, connections, configuration, misuse, bad bytes."""

from __future__ import annotations

from .base import AuthenticationFailedError, KafkaConnectionError, KafkaError
from .broker import MessageTooLargeError

__all__ = [
    "BufferExhaustedError",
    "CircuitOpenError",
    "CloseTimeoutError",
    "ConfigurationError",
    "CorrelationIdMismatchError",
    "DeliveryTimeoutError",
    "DisconnectedError",
    "FlushTimeoutError",
    "ForkedProducerError",
    "GaplessGuaranteeError",
    "IllegalStateError",
    "IllegalTransitionError",
    "KafkaTimeoutError",
    "MalformedFrameError",
    "MetadataNotReadyError",
    "MetadataTimeoutError",
    "ProducerClosedError",
    "ProducerNotStartedError",
    "ProtocolError",
    "PurgedError",
    "RecordDroppedError",
    "RecordTooLargeError",
    "SenderCrashedError",
    "SerializationError",
    "SpoolError",
    "SslAuthenticationFailedError",
    "TransactionAbortedError",
    "WrongEventLoopError",
]


class KafkaTimeoutError(KafkaError, TimeoutError):
    """Something did not happen in the time it had."""

    retriable = True


class DeliveryTimeoutError(KafkaTimeoutError):
    """A record had no outcome within delivery_timeout_ms."""


class MetadataTimeoutError(KafkaTimeoutError):
    """Metadata of a topic did not come within max_block_ms."""


class BufferExhaustedError(KafkaTimeoutError):
    """There is no room in buffer_memory for the record."""


class FlushTimeoutError(KafkaTimeoutError):
    """flush() reached its deadline with records still on their way; they stay on their way."""


class CloseTimeoutError(KafkaTimeoutError):
    """close() reached its deadline before this record had an outcome."""


class MetadataNotReadyError(KafkaError):
    """send_nowait() needs metadata of the topic, which is not there yet: await enqueue() or partitions_for() first."""

    retriable = True


class DisconnectedError(KafkaConnectionError):
    """The connection to the broker was lost before it answered."""


class SslAuthenticationFailedError(AuthenticationFailedError):
    """The TLS handshake failed: a certificate was refused, or one side does not speak TLS."""


class ConfigurationError(KafkaError, ValueError):
    """An option is unknown, out of range, or contradicts another."""


class IllegalStateError(KafkaError, RuntimeError):
    """Something was called in a state that does not allow it."""


class IllegalTransitionError(IllegalStateError):
    """A state machine was asked for a change that its table does not have: a bug of aiokafkapy."""


class ProducerNotStartedError(IllegalStateError):
    """The producer is not started: use it in ``async with producer:`` or ``await producer.start()`` first."""


class ProducerClosedError(IllegalStateError):
    """The producer is closed."""

    fatal = True


class ForkedProducerError(IllegalStateError):
    """The producer was started in another process, before a fork: make one in each process."""

    fatal = True


class WrongEventLoopError(IllegalStateError):
    """The producer was started on another event loop: make one for each loop."""


class TransactionAbortedError(KafkaError):
    """The record, or the group's offsets, were not sent: their transaction was aborted before.

    Java: TransactionAbortedException.
    """


class GaplessGuaranteeError(KafkaError):
    """An earlier record of the partition failed, and with enable_gapless_guarantee nothing is written behind it.

    ``__cause__`` is that record's error. librdkafka: ERR__GAPLESS_GUARANTEE.
    """


class PurgedError(KafkaError):
    """The record was given up by purge(), or with cancel_takes_back by the end of its call.

    librdkafka: ERR__PURGE_QUEUE, and ERR__PURGE_INFLIGHT with outcome_unknown.
    """


class RecordDroppedError(KafkaError):
    """There was no room in the buffer, and the topic's ``overflow`` says that a record is dropped then.

    ``policy`` is ``drop_newest`` or ``drop_oldest``; the message says which bound was reached. It was not written.
    """

    def __init__(
        self,
        message: str = "",
        *,
        policy: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        outcome_unknown: bool = False,
    ) -> None:
        super().__init__(message, topic=topic, partition=partition, outcome_unknown=outcome_unknown)
        self.policy = policy


class SpoolError(KafkaError):
    """``spool_dir`` cannot be used, or a record could not be written there, and is not on its way either, unless
    ``outcome_unknown``. The cause is the OSError, if there is one.
    """


class CircuitOpenError(KafkaError):
    """Deliveries to the topic keep failing, so that the record was refused at once (``circuit_breaker``).

    ``open_for`` and ``retry_in`` are seconds: since the circuit opened, and until a record is tried again.
    ``__cause__`` is the last error.
    """

    retriable = True

    def __init__(
        self,
        message: str = "",
        *,
        open_for: float = 0.0,
        retry_in: float = 0.0,
        topic: str | None = None,
        partition: int | None = None,
        outcome_unknown: bool = False,
    ) -> None:
        super().__init__(message, topic=topic, partition=partition, outcome_unknown=outcome_unknown)
        self.open_for = open_for
        self.retry_in = retry_in


class SenderCrashedError(KafkaError):
    """The producer's Sender task ended unexpectedly; everything pending failed with the cause given here."""

    fatal = True


class SerializationError(KafkaError, ValueError):
    """A key, value, header or request could not be turned into bytes."""


class RecordTooLargeError(MessageTooLargeError, ValueError):
    """A record is larger than the producer or the topic allows."""

    def __init__(
        self,
        message: str = "",
        *,
        size: int | None = None,
        limit: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        outcome_unknown: bool = False,
    ) -> None:
        super().__init__(message, topic=topic, partition=partition, outcome_unknown=outcome_unknown)
        self.size = size
        self.limit = limit


class ProtocolError(KafkaError):
    """The peer broke the protocol; its connection is closed."""

    retriable = True


class MalformedFrameError(ProtocolError):
    """Bytes that the protocol does not allow."""


class CorrelationIdMismatchError(ProtocolError):
    """A response's correlation id is not that of the oldest request in flight."""


def foreign_cause(error: BaseException) -> BaseException | None:
    """The error of a caller's serializer behind this one; its text may have the record's data in it."""
    cause = error.__cause__
    return cause if isinstance(error, SerializationError) and not isinstance(cause, KafkaError) else None


def text_without_data(error: BaseException) -> str:
    """The error's text, without the words of a caller's serializer."""
    cause = foreign_cause(error)
    if cause is None:
        return str(error)
    return f"{SerializationError.summary()} ({type(cause).__module__}.{type(cause).__qualname__})"
