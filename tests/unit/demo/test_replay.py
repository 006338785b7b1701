"""Flights are dealt to clients."""

from __future__ import annotations

from aiokafkapy.demo.flights import Flight
from aiokafkapy.demo.replay import deal


def test_every_flight_is_dealt_once_a_key_to_one_client_and_in_the_files_order() -> None:
    flights = [Flight(row, b"N%d" % (row % 7) if row % 5 else None, row, b"") for row in range(200)]
    hands = deal(flights, 4)
    assert sorted(flight.row for hand in hands for flight in hand) == list(range(200))
    for hand in hands:
        assert [flight.row for flight in hand] == sorted(flight.row for flight in hand)
    owners: dict[bytes, set[int]] = {}
    for number, hand in enumerate(hands):
        for flight in hand:
            if flight.key is not None:
                owners.setdefault(flight.key, set()).add(number)
    assert all(len(numbers) == 1 for numbers in owners.values())
