"""Faults, the partitions that they hit, and errors by code; how requests use faults up is tested with ``controls``."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.faults.armed_faults import Fault, broker_error, error_code
from aiokafkapy.errors import KafkaError, NotLeaderOrFollowerError
from aiokafkapy.protocol.api import ApiKey


def test_a_fault_of_a_topic_or_partition_fits_no_other() -> None:
    fault = Fault(ApiKey.PRODUCE, 6, False, "t", 1)
    assert fault.is_partial
    assert [fault.matches(*place) for place in (("t", 1), ("t", None), ("t", 2), ("u", 1))] == [
        True,
        True,
        False,
        False,
    ]
    assert not Fault(ApiKey.PRODUCE, 6, False).is_partial


def test_an_unknown_error_keeps_its_number() -> None:
    assert broker_error(6).code == 6
    assert isinstance(broker_error(6), NotLeaderOrFollowerError)
    assert broker_error(4711).code == 4711


def test_an_error_without_a_code_is_refused() -> None:
    assert (error_code(6), error_code(NotLeaderOrFollowerError)) == (6, 6)
    with pytest.raises(ValueError, match="not an error that a broker sends"):
        error_code(KafkaError)
