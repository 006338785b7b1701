"""The number of requests that a node gets with ``max_in_flight_requests_per_connection="auto"``, with brokers in
virtual time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.producer.sender.pipelining import FIRST, LEAST_QUEUED, MEMORY, MOST_QUEUED, Pipelining

MOST = 5
NODE = 1


class Broker:
    """One server behind a line: a request takes half a round trip there, its turn, and half a round trip back.

    The client has always more to send, and sends as many as ``limit`` says.
    """

    def __init__(
        self,
        round_trip: float,
        service: Callable[[int], float],
        limit: Callable[[], int] | None = None,
        *,
        most: int = MOST,
        sizes: Callable[[], int] = lambda: 100_000,
        noise: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.pipelining = Pipelining(most)
        self.round_trip, self.service, self.sizes, self.noise = round_trip, service, sizes, noise
        self.limit = limit if limit is not None else lambda: self.pipelining.limit(NODE)
        self.now = 100.0
        self.free_at = 0.0
        self.answers: list[tuple[float, int, float, int, int]] = []  # due, number, sent, place, size
        self.done = self.number = 0
        self.windows: list[int] = []
        self.waited: list[float] = []

    def run(self, seconds: float) -> float:
        """Answers per second."""
        end, before, began = self.now + seconds, self.done, self.now
        while self.now < end:
            while len(self.answers) < self.limit():
                self._send()
            due, _, sent, place, size = heapq.heappop(self.answers)
            self.now = due
            self.done += 1
            self.pipelining.answered(NODE, place, size, due - sent, due)
            self.windows.append(self.limit())
        return (self.done - before) / (self.now - began)

    def _send(self) -> None:
        size, there = self.sizes(), self.now + self.round_trip / 2
        begins = max(there, self.free_at)
        self.waited.append((begins - there) / self.service(size))
        self.free_at = begins + self.service(size)
        # Answers come in order, as on a connection.
        due = self.free_at + self.round_trip / 2 + self.noise()
        due = max([due, *(answer[0] for answer in self.answers)])
        self.number += 1
        heapq.heappush(self.answers, (due, self.number, self.now, len(self.answers) + 1, size))


def constant(seconds: float) -> Callable[[int], float]:
    return lambda _: seconds


@pytest.mark.parametrize("distance", [0.0, 0.5, 1.0, 2.0, 3.0, 10.0, 100.0])
def test_the_limit_comes_to_the_full_rate_with_little_waiting(distance: float) -> None:
    """The round trip is a multiple of the broker's work for one request."""
    fixed = Broker(distance * 0.010, constant(0.010), lambda: MOST).run(20.0)
    broker = Broker(distance * 0.010, constant(0.010))
    broker.run(5.0)  # some rounds
    broker.waited.clear()
    assert broker.run(20.0) >= 0.97 * fixed
    assert sum(broker.waited) / len(broker.waited) <= 1.0 + MOST_QUEUED - 1
    assert max(broker.windows) <= MOST


def test_a_near_broker_gets_two_and_a_distant_one_all() -> None:
    near, far = Broker(0.0, constant(0.010)), Broker(0.5, constant(0.001))
    near.run(10.0)
    far.run(60.0)
    assert near.pipelining.limits() == {NODE: FIRST}
    assert far.pipelining.limits() == {NODE: MOST}


def test_without_idempotence_a_distant_broker_gets_more() -> None:
    broker = Broker(0.5, constant(0.001), most=16)
    broker.run(60.0)
    assert broker.pipelining.limits() == {NODE: 16}


def test_the_limit_backs_off_when_round_trips_grow_and_comes_back() -> None:
    work = [0.001]
    broker = Broker(0.100, lambda _: work[0])
    broker.run(10.0)
    assert broker.pipelining.limit(NODE) == MOST
    work[0] = 0.200  # a disk that is busy, a neighbour
    broker.run(10.0)
    assert broker.pipelining.limits()[NODE] <= 2
    work[0] = 0.001
    broker.run(MEMORY)
    assert broker.pipelining.limits() == {NODE: MOST}


def test_a_line_that_is_longer_from_now_on_is_learned_again() -> None:
    broker = Broker(0.010, constant(0.004))
    broker.run(5.0)
    broker.round_trip = 0.200
    broker.run(2 * MEMORY)
    assert broker.pipelining.limits() == {NODE: MOST}


@pytest.mark.parametrize("seed", range(5))
def test_answers_that_are_late_by_chance_do_not_matter(seed: int) -> None:
    chance = random.Random(seed)
    noise = lambda: chance.expovariate(1 / 0.005)  # noqa: E731
    broker = Broker(0.100, constant(0.001), noise=noise)
    broker.run(10.0)
    assert broker.run(20.0) >= 0.85 * Broker(0.100, constant(0.001), lambda: MOST, noise=noise).run(20.0)


def test_large_requests_among_small_ones_are_not_taken_for_waiting() -> None:
    chance = random.Random(1)
    by_size = lambda size: size * 1e-8  # noqa: E731
    sizes = lambda: chance.choice((500, 1_000_000))  # noqa: E731
    broker = Broker(0.200, by_size, sizes=sizes)
    broker.run(20.0)
    assert broker.run(20.0) >= 0.9 * Broker(0.200, by_size, lambda: MOST, sizes=sizes).run(20.0)


def test_a_producer_with_little_to_send_learns_nothing_and_grows_no_window() -> None:
    pipelining = Pipelining(MOST)
    assert pipelining.limit(NODE) == 1
    for number in range(100):
        pipelining.answered(NODE, 1, 100, 0.1, 10.0 + number)
    assert pipelining.limits() == {NODE: FIRST}


def filled() -> tuple[Pipelining, float]:
    broker = Broker(0.5, constant(0.001))
    broker.run(20.0)
    assert broker.pipelining.limit(NODE) == MOST
    return broker.pipelining, broker.now


def test_a_throttle_halves_it_for_that_node_alone() -> None:
    pipelining, now = filled()
    pipelining.answered(2, 1, 100, 0.1, now)
    pipelining.throttled(NODE, now)
    assert pipelining.limits() == {NODE: MOST // 2, 2: FIRST}
    pipelining.throttled(NODE, now)
    pipelining.throttled(NODE, now)
    assert pipelining.limit(NODE) == 1
    pipelining.throttled(7, now)
    pipelining.lost(7, now)
    assert pipelining.limit(7) == 1


def test_a_lost_connection_halves_it_and_the_next_is_measured_again() -> None:
    pipelining, now = filled()
    pipelining.lost(NODE, now)
    assert pipelining.limit(NODE) == 1
    pipelining.answered(NODE, 4, 100, 5.0, now + 5)
    assert pipelining.limit(NODE) == 1, "this one was not alone"
    pipelining.answered(NODE, 1, 100, 0.5, now + 6)
    assert pipelining.limit(NODE) == MOST // 2


def test_answers_to_requests_sent_before_the_last_change_do_not_count() -> None:
    pipelining, now = filled()
    pipelining.throttled(NODE, now)
    for _ in range(20):
        pipelining.answered(NODE, 5, 100_000, 5.0, now + 1)
    assert pipelining.limit(NODE) == MOST // 2


def test_the_bounds_leave_room_for_a_queue_that_keeps_a_broker_busy() -> None:
    """With a broker next door and two in flight, one waits while the other is worked on."""
    assert LEAST_QUEUED < 1 < MOST_QUEUED


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("answered", "answered", "answered", "throttled", "lost")),
            st.integers(1, 6),
            st.integers(0, 2**31),
            st.floats(-1, 1e9, allow_nan=False),
            st.floats(0, 100, allow_nan=False),
        ),
        max_size=200,
    ),
    st.integers(1, 16),
)
def test_the_limit_stays_between_one_and_the_maximum(
    events: list[tuple[str, int, int, float, float]], most: int
) -> None:
    pipelining, now = Pipelining(most), 0.0
    for kind, place, size, seconds, later in events:
        now += later
        if kind == "answered":
            pipelining.answered(NODE, place, size, seconds, now)
        else:
            getattr(pipelining, kind)(NODE, now)
        assert 1 <= pipelining.limit(NODE) <= most
        assert all(1 <= limit <= most for limit in pipelining.limits().values())
