"""aiokafkapy.spark.sink.exactly_once: which failures mean that another attempt has the transactional id."""

from __future__ import annotations

import pytest

from aiokafkapy.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
)
from aiokafkapy.spark.sink.exactly_once import _is_fenced


@pytest.mark.parametrize(
    ("reason", "is_fenced"),
    [
        (ProducerFencedError("p"), True),
        (InvalidProducerEpochError("p"), True),
        (InvalidTxnStateError("p"), True),  # appended after the other attempt's commit, verified before it
        (TopicAuthorizationFailedError("p"), False),
        (KafkaError("p"), False),
    ],
)
def test_a_failure_is_told_by_itself_and_by_its_cause(reason: KafkaError, is_fenced: bool) -> None:
    row = RuntimeError("row 0 was not written")
    row.__cause__ = reason
    assert _is_fenced(reason) is is_fenced
    assert _is_fenced(row) is is_fenced
