"""The records and reported outcomes of one load, and their comparison with the brokers' logs.

An ``Account`` numbers the records of one producer in call order and puts the number into the value, which identifies
the record in the log. ``check_log`` checks the promises of ``judging``; it is pure, and independent of how the log was
read.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Protocol

from ..promises.judging import Place, Told, broken_promises, out_of_order

__all__ = ["Account", "Findings", "LogRecord", "check_log"]

_PADDING = b"." * 60
_EXAMPLES = 3


class LogRecord(Protocol):
    """The fields of a record that was read back."""

    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


class Account:
    """The records of one load, by number from 0."""

    def __init__(self, name: str, topic: str, *, keys: int = 0) -> None:
        self.name = name
        self.topic = topic
        self.sent = 0
        self.acknowledged: dict[int, Place] = {}
        self.failed: dict[int, BaseException] = {}
        self.longest_silence = 0.0
        """Seconds between two acknowledgements."""
        self._keys = keys
        self._last_acknowledged = 0.0
        self._mark = 0
        self._progress = asyncio.Event()

    def take(self) -> int:
        """The number of the next record; its caller sends the record before another number can be taken."""
        self.sent += 1
        return self.sent - 1

    def value(self, number: int) -> bytes:
        """The value of a record."""
        return b"%s:%d:%s" % (self.name.encode(), number, _PADDING)

    def key(self, number: int) -> bytes | None:
        """The key of a record; None when the load has no keys."""
        return b"key-%d" % (number % self._keys) if self._keys else None

    def acknowledge(self, number: int, partition: int, offset: int) -> None:
        """A record was delivered."""
        self._settle(number)
        self.acknowledged[number] = (partition, offset)
        now = asyncio.get_running_loop().time()
        if self._last_acknowledged:
            self.longest_silence = max(self.longest_silence, now - self._last_acknowledged)
        self._last_acknowledged = now
        if number >= self._mark:
            self._progress.set()

    def fail(self, number: int, error: BaseException) -> None:
        """A record was not delivered, as far as its error knows."""
        self._settle(number)
        self.failed[number] = error

    def told(self, number: int) -> Told:
        """The outcome of a record."""
        return self.acknowledged.get(number) or self.failed.get(number)

    async def progress(self) -> None:
        """Return when a record that is sent from now on has been acknowledged."""
        self._mark = self.sent
        self._progress.clear()
        await self._progress.wait()

    def _settle(self, number: int) -> None:
        if number in self.acknowledged or number in self.failed:
            raise RuntimeError(f"{self.name}: record {number} was given a second outcome")


def check_log(log: Mapping[int, Iterable[LogRecord]], accounts: Iterable[Account]) -> list[str]:
    """The findings in one topic's log, by partition, given the accounts of all its records; empty if there are none."""
    by_name = {account.name: account for account in accounts}
    found = Findings()
    places: dict[str, dict[int, list[Place]]] = {name: defaultdict(list) for name in by_name}
    for partition, records in log.items():
        for record in records:
            account, number = _identify(record, by_name)
            place = (partition, record.offset)
            if account is None:
                found.add("nobody sent", place, repr(record.value)[:80])
            else:
                places[account.name][number].append(place)
    for name, account in by_name.items():
        _check_account(account, places[name], found)
    return found.lines()


def _check_account(account: Account, places: Mapping[int, list[Place]], found: Findings) -> None:
    for number in range(account.sent):
        for what, details in broken_promises(account.told(number), places.get(number, [])):
            found.add(what, account.name, number, details)
    in_call_order = ((number, places.get(number, [])) for number in range(account.sent))
    for late, early in out_of_order(in_call_order):
        found.add("out of order", account.name, late, places[late], f"before {early} at {places[early]}")


def _identify(record: LogRecord, accounts: Mapping[str, Account]) -> tuple[Account | None, int]:
    """The account and number of a record; None unless exactly this record was sent, to the last byte."""
    name, _, rest = (record.value or b"").decode(errors="replace").partition(":")
    number = rest.partition(":")[0]
    account = accounts.get(name)
    if account is None or not number.isdecimal() or int(number) >= account.sent:
        return None, 0
    is_whole = (record.key, record.value) == (account.key(int(number)), account.value(int(number)))
    return (account if is_whole else None), int(number)


class Findings:
    """Counts by fault, with the first examples of each."""

    def __init__(self) -> None:
        self._examples: dict[str, list[str]] = defaultdict(list)
        self._counts: dict[str, int] = defaultdict(int)

    def add(self, what: str, *details: object) -> None:
        """Count one more record of this finding."""
        self._counts[what] += 1
        if len(self._examples[what]) < _EXAMPLES:
            self._examples[what].append(" ".join(map(str, details)))

    def lines(self) -> list[str]:
        """A sentence for each."""
        return [
            f"{count} {'record' if count == 1 else 'records'} {what}: {'; '.join(self._examples[what])}"
            for what, count in self._counts.items()
        ]
