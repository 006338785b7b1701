"""What one load sent and was told, and whether the brokers' logs agree with it.

An `Account` numbers the records of one producer in the order of its calls, and the number stands in the value, so that
the log tells which record is which. `check_log` compares; it is pure, and does not care how the log was read.

Rules: an acknowledged record is in the log exactly once, at the partition and offset that were told; a record that
failed at most once and, unless the error says that its outcome is not known, not at all; the records of one account
stand in a partition in the order of its calls.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Protocol

from aiokafkapy.errors import KafkaError

__all__ = ["Account", "LogRecord", "check_log"]

NO_OFFSET = -1
"""What a record is told that was found to be written already: Kafka's DUPLICATE_SEQUENCE_NUMBER names no offset."""
_PADDING = b"." * 60
_EXAMPLES = 3


class LogRecord(Protocol):
    """What is looked at of a record that was read back."""

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
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failed: dict[int, BaseException] = {}
        self.longest_silence = 0.0
        """Seconds between two acknowledgements."""
        self._keys = keys
        self._last_acknowledged = 0.0
        self._mark = 0
        self._progress = asyncio.Event()

    def take(self) -> int:
        """The number of the next record; whoever takes it sends it before anybody else can take one."""
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

    async def progress(self) -> None:
        """Return when a record that is sent from now on has been acknowledged."""
        self._mark = self.sent
        self._progress.clear()
        await self._progress.wait()

    def _settle(self, number: int) -> None:
        if number in self.acknowledged or number in self.failed:
            raise RuntimeError(f"{self.name}: record {number} was given a second outcome")


def check_log(log: Mapping[int, Iterable[LogRecord]], accounts: Iterable[Account]) -> list[str]:
    """What is wrong with one topic's log, by partition, given the accounts of all that was sent there; [] is well."""
    by_name = {account.name: account for account in accounts}
    found = _Findings()
    places: dict[str, dict[int, list[tuple[int, int]]]] = {name: defaultdict(list) for name in by_name}
    for partition, records in log.items():
        last: dict[str, int] = {}
        for record in records:
            account, number = _identify(record, by_name)
            place = (partition, record.offset)
            if account is None:
                found.add("nobody sent", place, repr(record.value)[:80])
                continue
            places[account.name][number].append(place)
            # One that stands there twice is told of as repeated.
            if number < last.get(account.name, -1) and len(places[account.name][number]) == 1:
                found.add("out of order", account.name, number, place, f"after {last[account.name]}")
            last[account.name] = max(number, last.get(account.name, -1))
    for name, account in by_name.items():
        _check_account(account, places[name], found)
    return found.lines()


def _check_account(account: Account, places: Mapping[int, list[tuple[int, int]]], found: _Findings) -> None:
    for number in range(account.sent):
        there = places.get(number, [])
        if len(there) > 1:
            found.add("repeated", account.name, number, *there)
        if number in account.acknowledged:
            told = account.acknowledged[number]
            if not there:
                found.add("acknowledged and lost", account.name, number, told)
            elif told not in there and (told[1] != NO_OFFSET or told[0] != there[0][0]):
                found.add("elsewhere than told", account.name, number, f"{told}, is at {there}")
        elif number in account.failed:
            error = account.failed[number]
            if not isinstance(error, KafkaError):
                found.add("failed with an error that is not Kafka's", account.name, number, repr(error))
            elif there and not error.outcome_unknown:
                found.add("said to be not written, and is", account.name, number, there, repr(error)[:200])
        else:
            found.add("without an outcome", account.name, number)


def _identify(record: LogRecord, accounts: Mapping[str, Account]) -> tuple[Account | None, int]:
    """Whose record it is and which; None when it is not, to the last byte, one that was sent."""
    name, _, rest = (record.value or b"").decode(errors="replace").partition(":")
    number = rest.partition(":")[0]
    account = accounts.get(name)
    if account is None or not number.isdecimal() or int(number) >= account.sent:
        return None, 0
    is_whole = (record.key, record.value) == (account.key(int(number)), account.value(int(number)))
    return (account if is_whole else None), int(number)


class _Findings:
    """Counts by what is wrong, with the first examples of each."""

    def __init__(self) -> None:
        self._examples: dict[str, list[str]] = defaultdict(list)
        self._counts: dict[str, int] = defaultdict(int)

    def add(self, what: str, *details: object) -> None:
        self._counts[what] += 1
        if len(self._examples[what]) < _EXAMPLES:
            self._examples[what].append(" ".join(map(str, details)))

    def lines(self) -> list[str]:
        return [
            f"{count} {'record' if count == 1 else 'records'} {what}: {'; '.join(self._examples[what])}"
            for what, count in self._counts.items()
        ]
