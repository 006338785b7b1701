"""The load: flights posted to the service by concurrent clients, and flights given to the producer directly.

Owns the making of the load; outcomes go to the ``Ledger``. It knows no command line.

Rules:

- Each tail number belongs to one client, which waits for each response before it posts the next flight, so the order of
  a key's records is known and can be checked.
- Every flight handed over is accounted for: acknowledged, failed, or unanswered.
- When the user asks to stop, no further flight is sent, and flights in progress are awaited.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..errors import KafkaError
from .flights import Flight
from .ledger import Ledger

if TYPE_CHECKING:
    from ..producer.deliveries.delivery import Delivery
    from ..producer.producer import KafkaProducer

__all__ = ["Bar", "Replay", "StopSignal", "deal", "replay_directly", "replay_over_http"]

MAX_UNCONFIRMED: Final = 20_000
"""The most records with an unchecked delivery."""
LOOK_EVERY: Final = 512
"""Records between checks of Ctrl-C, the progress bar and the deliveries."""
ANSWER_TIMEOUT: Final = 150.0
"""Seconds: more than the producer's delivery_timeout_ms, after which the service knows the outcome."""


class StopSignal(Protocol):
    """The user's request to stop."""

    @property
    def is_requested(self) -> bool:
        """True from the first Ctrl-C on."""

    async def wait(self) -> None:
        """Returns when the user asked."""


class Bar(Protocol):
    """A progress display."""

    def update(self, done: int) -> None:
        """Show the total done so far."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The flights to send, the ledger of their outcomes, and the user's display and signal."""

    flights: Sequence[Flight]
    ledger: Ledger
    stop: StopSignal
    bar: Bar


def deal(flights: Sequence[Flight], clients: int) -> list[list[Flight]]:
    """The flights of each client, in the order of departure; all of one key go to the same client."""
    hands: list[list[Flight]] = [[] for _ in range(clients)]
    for flight in flights:
        number = flight.row if flight.key is None else zlib.crc32(flight.key)
        hands[number % clients].append(flight)
    return hands


async def replay_over_http(replay: Replay, url: str, clients: int) -> list[float]:
    """Post every flight, each client one at a time; returns the seconds of each answered one."""
    import aiohttp  # here, so that the demo can say what is missing

    latencies: list[float] = []
    ledger = replay.ledger

    async def client(hand: list[Flight]) -> None:
        for flight in hand:
            if replay.stop.is_requested:
                return
            ledger.record_sent(flight.row)
            begun = time.perf_counter()
            try:
                async with session.post(url, data=flight.value, headers=_JSON) as response:
                    answer = await response.json()
                    status = response.status
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                ledger.record_unanswered(f"HTTP: {str(error) or type(error).__name__}")
                continue
            latencies.append(time.perf_counter() - begun)
            _note_answer(ledger, flight.row, status, answer)
            if len(latencies) % 64 == 0:
                replay.bar.update(len(latencies))

    timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session, asyncio.TaskGroup() as group:
        for hand in deal(replay.flights, clients):
            group.create_task(client(hand))
    replay.bar.update(len(latencies))
    return latencies


async def replay_directly(replay: Replay, producer: KafkaProducer, topic: str) -> None:
    """Give every flight to the producer without waiting for its answer, then wait for all answers."""
    unconfirmed: deque[tuple[Delivery, int]] = deque()
    ledger = replay.ledger
    done = 0
    for flight in replay.flights:
        if done % LOOK_EVERY == 0:
            replay.bar.update(done)
            if replay.stop.is_requested:
                break
            await _confirm(unconfirmed, ledger, MAX_UNCONFIRMED)
        ledger.record_sent(flight.row)
        try:
            delivery = await producer.enqueue(topic, flight.value, key=flight.key, timestamp_ms=flight.timestamp_ms)
        except KafkaError as error:
            _note_error(ledger, flight.row, error)
        else:
            unconfirmed.append((delivery, flight.row))
        done += 1
    await _confirm(unconfirmed, ledger, 0)
    replay.bar.update(done)


# internals

_JSON: Final = {"Content-Type": "application/json"}


def _note_answer(ledger: Ledger, row: int, status: int, answer: Any) -> None:
    if status == 200:
        ledger.record_acknowledged(row, answer["partition"], answer["offset"])
    elif status == 503 and answer.get("outcome_unknown"):
        ledger.record_unanswered(str(answer.get("error")))
    else:
        ledger.record_failed(row, f"HTTP {status}: {answer.get('error') or answer.get('detail')}")


def _note_error(ledger: Ledger, row: int, error: KafkaError) -> None:
    reason = f"{type(error).__name__}: {error}"
    if error.outcome_unknown:
        ledger.record_unanswered(reason)
    else:
        ledger.record_failed(row, reason)


async def _confirm(unconfirmed: deque[tuple[Delivery, int]], ledger: Ledger, most: int) -> None:
    """Record the known outcomes, and wait for more until at most ``most`` are open."""
    while unconfirmed and (len(unconfirmed) > most or unconfirmed[0][0].done()):
        delivery, row = unconfirmed.popleft()
        try:
            metadata = delivery.result() if delivery.done() else await delivery
        except KafkaError as error:
            _note_error(ledger, row, error)
        else:
            ledger.record_acknowledged(row, metadata.partition, metadata.offset)
