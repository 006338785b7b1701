"""The demo's ledger: each kind of discrepancy is found, by its own check."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.common import ConsumedRecord
from aiokafkapy.demo.flights import Flight
from aiokafkapy.demo.ledger import Ledger

FLIGHTS = [
    Flight(row, key, 1_000 + row, b'{"row":%d,"n":1}' % row)
    for row, key in enumerate([b"A", b"B", b"A", None, b"B", b"A"])
]


def consumed(row: int, offset: int, partition: int = 0, **changes: object) -> ConsumedRecord:
    flight = FLIGHTS[row]
    record = ConsumedRecord(offset, flight.key, flight.value, (), flight.timestamp_ms, "t", partition)
    return record._replace(**changes)  # type: ignore[arg-type]


def ledger_with_all_acknowledged() -> Ledger:
    ledger = Ledger(FLIGHTS)
    for row in range(len(FLIGHTS)):
        ledger.record_sent(row)
        ledger.record_acknowledged(row, 0, row)
    return ledger


def failed_checks(ledger: Ledger, **options: bool) -> list[str]:
    return [check.name for check in ledger.checks(**options) if not check.passed]


def test_everything_in_order_passes_every_check() -> None:
    ledger = ledger_with_all_acknowledged()
    ledger.record_found(consumed(row, row) for row in range(6))
    assert failed_checks(ledger) == []
    assert (ledger.found, ledger.lost, ledger.unanswered) == (6, 0, 0)


def test_a_record_that_is_not_there_is_lost() -> None:
    ledger = ledger_with_all_acknowledged()
    ledger.record_found(consumed(row, row) for row in range(5))
    assert failed_checks(ledger) == ["records in = records out"]
    assert ledger.lost == 1


def test_a_record_that_is_there_twice_is_found() -> None:
    ledger = ledger_with_all_acknowledged()
    ledger.record_found([*(consumed(row, row) for row in range(6)), consumed(3, 6)])
    assert "none twice" in failed_checks(ledger)
    assert ledger.examples["twice"] == ["twice: row 3 at partition 0, offset 6"]


def test_two_records_of_a_key_in_the_wrong_order_are_found() -> None:
    ledger = Ledger(FLIGHTS)
    for row, offset in [(2, 0), (0, 1)]:
        ledger.record_sent(row)
        ledger.record_acknowledged(row, 0, offset)
    ledger.record_found([consumed(2, 0), consumed(0, 1)])
    assert failed_checks(ledger, was_interrupted=True) == ["order per key"]


@pytest.mark.parametrize("change", [{"value": b'{"row":1,"n":2}'}, {"key": b"X"}, {"timestamp_ms": 5}])
def test_a_changed_key_value_or_timestamp_is_found(change: dict[str, Any]) -> None:
    ledger = ledger_with_all_acknowledged()
    ledger.record_found(consumed(row, row, **(change if row == 1 else {})) for row in range(6))
    assert "key, timestamp and value as sent" in failed_checks(ledger)


def test_a_record_at_another_place_than_acknowledged_is_found() -> None:
    ledger = ledger_with_all_acknowledged()
    ledger.record_found(consumed(row, row, partition=1 if row == 3 else 0) for row in range(6))
    assert failed_checks(ledger) == ["where the acknowledgement said"]


def test_threads_and_tasks_that_are_not_ours_are_found() -> None:
    ledger = ledger_with_all_acknowledged()
    foreign = ConsumedRecord(9, None, b"hello", (), 0, "t", 0)
    ledger.record_found([*(consumed(row, row) for row in range(6)), foreign])
    assert failed_checks(ledger) == ["records in = records out"]
    assert ledger.foreign == 1


def test_a_failure_is_counted_and_a_failed_record_in_the_log_is_found() -> None:
    ledger = ledger_with_all_acknowledged()
    ledger.states[5] = 0
    ledger.acknowledged -= 1
    ledger.record_failed(5, "refused")
    ledger.record_found(consumed(row, row) for row in range(5))
    assert failed_checks(ledger) == ["every flight was acknowledged"]
    assert ledger.failures == {"refused": 1}
    ledger.record_found([consumed(5, 5)])
    assert "records in = records out" in failed_checks(ledger)


def test_an_interrupted_run_passes_for_acknowledged_records_whether_or_not_the_rest_failed() -> None:
    ledger = Ledger(FLIGHTS)
    for row in range(3):
        ledger.record_sent(row)
    ledger.record_acknowledged(0, 0, 0)
    ledger.record_found([consumed(0, 0), consumed(1, 1)])
    assert failed_checks(ledger, was_interrupted=True) == []
    assert (ledger.unanswered, ledger.unanswered_found) == (2, 1)
    assert failed_checks(ledger) == ["every flight was acknowledged"]
