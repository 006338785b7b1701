from __future__ import annotations

import math
from typing import Any

import pytest

from aiokafkapy.client.nodes.client_request import ClientRequest
from aiokafkapy.client.nodes.in_flight_requests import InFlightRequest, InFlightRequests
from aiokafkapy.errors import DisconnectedError, KafkaError, KafkaTimeoutError
from aiokafkapy.protocol.api import ApiKey


def entry(number: int, node_id: int = 1, deadline: float = 100.0, written: bool = True) -> InFlightRequest:
    future: Any = None
    made = InFlightRequest(ClientRequest(node_id, ApiKey.METADATA), 12, number, future, 10.0, deadline)
    made.is_written = written
    return made


def number_of(found: InFlightRequest | None) -> int:
    assert found is not None
    return found.correlation_id


@pytest.fixture
def in_flight() -> InFlightRequests:
    return InFlightRequests(3)


def test_answers_take_the_oldest_and_acks_0_the_newest(in_flight: InFlightRequests) -> None:
    for number in range(3):
        in_flight.add(entry(number))
    assert number_of(in_flight.oldest(1)) == 0
    assert number_of(in_flight.complete_next(1)) == 0
    assert number_of(in_flight.complete_last_sent(1)) == 2
    assert in_flight.count(1) == 1


def test_an_unknown_node_has_nothing(in_flight: InFlightRequests) -> None:
    assert in_flight.complete_next(1) is None
    assert in_flight.complete_last_sent(1) is None
    assert in_flight.oldest(1) is None
    assert in_flight.mark_written(1) is None
    assert in_flight.clear_all(1) == []
    assert in_flight.count(1) == 0
    assert in_flight.is_empty(1)
    assert in_flight.count() == 0


def test_more_can_be_sent_when_the_newest_is_written_and_there_is_room(in_flight: InFlightRequests) -> None:
    assert in_flight.can_send_more(1)
    in_flight.add(entry(0, written=False))
    assert not in_flight.can_send_more(1)
    assert number_of(in_flight.mark_written(1)) == 0
    assert in_flight.can_send_more(1)
    in_flight.add(entry(1))
    in_flight.add(entry(2))
    assert not in_flight.can_send_more(1)
    assert in_flight.can_send_more(2)
    in_flight.complete_next(1)
    assert in_flight.can_send_more(1)


def test_clear_all_gives_the_oldest_first(in_flight: InFlightRequests) -> None:
    for number in range(5):
        in_flight.add(entry(number))
    in_flight.add(entry(9, node_id=2))
    assert [request.correlation_id for request in in_flight.clear_all(1)] == [0, 1, 2, 3, 4]
    assert in_flight.is_empty(1)
    assert in_flight.count() == 1
    assert in_flight.nodes() == [2]


def test_time_outs_are_looked_for_in_all_requests(in_flight: InFlightRequests) -> None:
    assert in_flight.next_deadline() == math.inf
    in_flight.add(entry(0, deadline=50))
    in_flight.add(entry(1, deadline=20))
    in_flight.add(entry(2, node_id=2, deadline=30))
    assert in_flight.next_deadline() == 20
    assert in_flight.nodes_with_timed_out_requests(19.9) == []
    assert in_flight.nodes_with_timed_out_requests(20) == [1]
    assert in_flight.nodes_with_timed_out_requests(60) == [1, 2]


def test_an_entry_makes_its_own_outcomes() -> None:
    made = entry(0, deadline=40.0)
    body: Any = "body"
    completed = made.completed(body, 11.5)
    assert (completed.body, completed.latency, completed.disconnected, completed.error) == (body, 1.5, False, None)
    assert completed.body_or_raise() is body
    lost = made.disconnected(11.0, DisconnectedError("it was lost"))
    assert lost.disconnected
    assert not lost.timed_out
    with pytest.raises(DisconnectedError, match="it was lost"):
        lost.body_or_raise()
    because = KafkaError("because")
    assert made.disconnected(11.0, because).error is because
    late = made.timed_out(40.0, "one:1")
    assert late.disconnected
    assert late.timed_out
    with pytest.raises(KafkaTimeoutError, match=r"node 1 at one:1 did not answer within 30\.000 s"):
        late.body_or_raise()
