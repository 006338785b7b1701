"""aiokafkapy.typed.dead_letters: which errors are for good, and which records are none."""

from __future__ import annotations

import pytest

from aiokafkapy import KafkaProducer, ProducerRecord, errors
from aiokafkapy.integrations.schema_registry import IncompatibleSchemaError, RegistryUnavailableError
from aiokafkapy.typed import DeadLetters, is_permanent
from aiokafkapy.typed.dead_letters import DeadLetterCounts


def serialization_error(cause: BaseException | None) -> errors.SerializationError:
    error = errors.SerializationError("no")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "is_for_good"),
    [
        (serialization_error(None), True),
        (serialization_error(ValueError("no")), True),
        (serialization_error(IncompatibleSchemaError("no")), True),
        (serialization_error(RegistryUnavailableError("away")), False),
        (serialization_error(ConnectionError("away")), False),
        (serialization_error(TimeoutError()), False),
        (errors.RecordTooLargeError("no"), True),
        (errors.InvalidRecordError("no"), True),
        (errors.TopicAuthorizationFailedError("no"), True),
        (errors.InvalidRecordError("no", outcome_unknown=True), False),
        (errors.NotEnoughReplicasError("later"), False),
        (errors.DeliveryTimeoutError("later"), False),
        (errors.ProducerClosedError("closed"), False),
        (errors.ProducerFencedError("fenced"), False),
        (errors.TransactionAbortedError("aborted"), False),
        (TypeError("a bug of the caller"), False),
    ],
)
def test_a_refusal_that_would_come_again_is_for_good(error: Exception, is_for_good: bool) -> None:
    assert is_permanent(error) is is_for_good


async def test_a_record_of_a_dead_letter_topic_is_never_a_dead_letter_even_after_a_restart() -> None:
    async with DeadLetters(KafkaProducer("h:1")) as letters:
        assert not letters.refuse(ProducerRecord("orders.dlq", b"v"), errors.RecordTooLargeError("no"))
    assert letters.counts == DeadLetterCounts()
