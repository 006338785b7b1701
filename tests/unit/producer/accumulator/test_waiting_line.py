"""The order of waiting records when there is room again."""

from __future__ import annotations

from aiokafkapy.producer.accumulator.waiting_line import WaitingLine

from ..accumulator_harness import Waiter


def test_topics_with_priority_come_first_and_each_kind_in_its_order() -> None:
    line = WaitingLine({"alerts"})
    records = [Waiter(b"", topic=topic, number=number) for number, topic in enumerate(("t", "alerts", "u", "alerts"))]
    for record in records:
        line.add(record)
    assert (len(line), records[2] in line) == (4, True)
    turns = []
    while len(line):
        turns.append(records.index(line.next()))  # type: ignore[arg-type]
        assert line.remove(line.next())
    assert turns == [1, 3, 0, 2]
    assert not line.remove(records[0])


def test_a_record_is_behind_others_of_its_kind_and_those_without_priority_behind_all() -> None:
    line = WaitingLine({"alerts"})
    alert, other = Waiter(b"", topic="alerts"), Waiter(b"", topic="t")
    assert not line.is_behind_others(alert)
    assert not line.is_behind_others(other)
    line.add(other)
    assert not line.is_behind_others(Waiter(b"", topic="alerts"))
    assert line.is_behind_others(Waiter(b"", topic="u"))
    line.add(alert)
    assert line.is_behind_others(Waiter(b"", topic="alerts"))
    line.clear()
    assert len(line) == 0


def test_without_topics_of_priority_it_is_one_line() -> None:
    line = WaitingLine()
    assert not line.has_priority("t")
    first = Waiter(b"", topic="t")
    line.add(first)
    line.add(Waiter(b"", topic="u"))
    assert line.next() is first
