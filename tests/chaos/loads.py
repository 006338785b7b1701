"""The producers of a run: each sends in its own way, as fast as its pace allows, and keeps the account of it.

Knows nothing of faults. A load goes on sending until it is stopped, with any outcomes.

Rules: a record's number is assigned when it is given to the producer, so that numbers are in call order; every outcome
is recorded, errors too.
"""

from __future__ import annotations

import abc
import asyncio
from functools import partial
from typing import Any

from aiokafkapy import Delivery, KafkaProducer
from aiokafkapy.errors import KafkaError

from .accounts import Account

__all__ = ["Load", "make_loads"]

PACE = 0.05
"""Seconds between two bursts: the brokers and the checker share a small machine with the loads."""
PATIENCE = 150.0
"""Seconds for ``close``, which may take a whole ``delivery_timeout_ms``."""


class Load(abc.ABC):
    """One producer and its account."""

    burst = 40

    def __init__(self, account: Account, **options: Any) -> None:
        self.account = account
        self.options = options
        self.producer: KafkaProducer[bytes, bytes] | None = None
        self._is_stopped = False

    async def run(self, bootstrap_servers: str) -> None:
        """Send until ``stop`` is called, then wait for every outcome. Raises TimeoutError when one does not come."""
        self.producer = KafkaProducer(bootstrap_servers, client_id=f"chaos-{self.account.name}", **self.options)
        await self.producer.start()
        try:
            while not self._is_stopped:
                await self.send_burst(self.producer)
                await asyncio.sleep(PACE)
        finally:
            async with asyncio.timeout(PATIENCE):
                await self.producer.close()

    def stop(self) -> None:
        """Send no more."""
        self._is_stopped = True

    @abc.abstractmethod
    async def send_burst(self, producer: KafkaProducer[bytes, bytes]) -> None:
        """Send some records."""


class Pipelined(Load):
    """Does not wait for outcomes."""

    async def send_burst(self, producer: KafkaProducer[bytes, bytes]) -> None:
        account = self.account
        for _ in range(self.burst):
            number = account.take()
            try:
                delivery = await producer.enqueue(account.topic, account.value(number), key=account.key(number))
            except KafkaError as error:
                account.fail(number, error)
            else:
                delivery.add_done_callback(partial(self._book, number))

    def _book(self, number: int, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is not None:
            self.account.fail(number, error)
        else:
            metadata = delivery.result()
            self.account.acknowledge(number, metadata.partition, metadata.offset)


class Awaiting(Load):
    """Many tasks that each wait for their record."""

    async def send_burst(self, producer: KafkaProducer[bytes, bytes]) -> None:
        await asyncio.gather(*(self._send(producer) for _ in range(self.burst)))

    async def _send(self, producer: KafkaProducer[bytes, bytes]) -> None:
        account = self.account
        number = account.take()
        try:
            metadata = await producer.send(account.topic, account.value(number), key=account.key(number))
        except KafkaError as error:
            account.fail(number, error)
        else:
            account.acknowledge(number, metadata.partition, metadata.offset)


class Bulk(Load):
    """``send_many``, which tells all outcomes at once."""

    burst = 60

    async def send_burst(self, producer: KafkaProducer[bytes, bytes]) -> None:
        account = self.account
        numbers = [account.take() for _ in range(self.burst)]
        values = map(account.value, numbers)
        outcomes = await producer.send_many(account.topic, values, return_exceptions=True)
        for number, outcome in zip(numbers, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                account.fail(number, outcome)
            else:
                account.acknowledge(number, outcome.partition, outcome.offset)


def make_loads(first_topic: str, second_topic: str) -> list[Load]:
    """The loads of a run. Two have small batches, so that many are in flight; one of these gives up soon, so that
    records fail, in every way.
    """
    small = {"batch_size": 1_000, "linger_ms": 0}
    return [
        Pipelined(Account("defaults", first_topic)),
        Pipelined(Account("lz4", first_topic, keys=31), acks="all", compression_type="lz4", **small),
        Pipelined(Account("impatient", first_topic), delivery_timeout_ms=4_000, request_timeout_ms=1_500, **small),
        Bulk(Account("bulk", second_topic)),
        Awaiting(Account("awaits", second_topic, keys=17)),
    ]
