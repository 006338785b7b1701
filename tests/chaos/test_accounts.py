"""The judge of a chaos run finds each way in which a log can disagree with the producer's outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import pytest

from aiokafkapy.errors import DeliveryTimeoutError

from ..promises.judging import NO_OFFSET
from .accounts import Account, check_log


class Record(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


Log = dict[int, list[Record]]


async def sent() -> tuple[Account, Log]:
    """Ten records in two partitions, all delivered but 8, which failed, and 9, which failed in doubt and is there."""
    account = Account("a", "t", keys=3)
    log: Log = {0: [], 1: []}
    for _ in range(10):
        number = account.take()
        partition = number % 2
        offset = len(log[partition])
        if number < 8:
            account.acknowledge(number, partition, offset)
        else:
            account.fail(number, DeliveryTimeoutError("late", outcome_unknown=number == 9))
        if number != 8:
            log[partition].append(Record(partition, offset, account.key(number), account.value(number)))
    return account, log


async def test_a_log_that_matches_the_reported_outcomes_passes() -> None:
    account, log = await sent()
    assert check_log(log, [account]) == []


async def test_a_record_in_doubt_may_be_missing_and_one_known_only_as_a_duplicate_has_no_offset() -> None:
    account, log = await sent()
    log[1].pop()
    account.acknowledged[7] = (1, NO_OFFSET)
    assert check_log(log, [account]) == []


def lose(account: Account, log: Log) -> None:
    log[0].pop(3)


def repeat(account: Account, log: Log) -> None:
    log[0].append(log[0][2]._replace(offset=9))


def swap(account: Account, log: Log) -> None:
    for first, second in ((0, 1), (1, 0)):
        account.acknowledged[2 * first] = (0, second)
    a, b, *rest = log[0]
    log[0] = [b._replace(offset=0), a._replace(offset=1), *rest]


def misplace(account: Account, log: Log) -> None:
    account.acknowledged[4] = (0, 3)


def move(account: Account, log: Log) -> None:
    account.acknowledged[4] = (1, NO_OFFSET)


def write_the_failed(account: Account, log: Log) -> None:
    log[0].append(Record(0, 4, account.key(8), account.value(8)))


def forget(account: Account, log: Log) -> None:
    del account.failed[9]


def fail_with_a_bug(account: Account, log: Log) -> None:
    account.failed[8] = ValueError("of ours")


def alter(account: Account, log: Log) -> None:
    log[0].append(Record(0, 4, None, account.value(0)[:-1]))


def add_a_strangers(account: Account, log: Log) -> None:
    log[0].append(Record(0, 4, None, b"b:0:"))


@pytest.mark.parametrize(
    ("harm", "finding"),
    [
        (lose, "1 record acknowledged and lost: a 6 told (0, 3)"),
        (repeat, "1 record repeated: a 4 [(0, 2), (0, 9)], told (0, 2)"),
        (swap, "1 record out of order: a 2 [(0, 0)] before 0 at [(0, 1)]"),
        (misplace, "1 record elsewhere than told: a 4 told (0, 3), is at [(0, 2)]"),
        (move, "1 record elsewhere than told: a 4 told (1, -1), is at [(0, 2)]"),
        (write_the_failed, "1 record said to be not written, and is: a 8 [(0, 4)], told DeliveryTimeoutError('late')"),
        (forget, "1 record without an outcome: a 9"),
        (fail_with_a_bug, "1 record failed with an error that is not Kafka's: a 8 ValueError('of ours')"),
        (alter, "1 record nobody sent: (0, 4) b'a:0:"),
        (add_a_strangers, "1 record nobody sent: (0, 4) b'b:0:'"),
    ],
)
async def test_each_harm_is_found(harm: Callable[[Account, Log], None], finding: str) -> None:
    account, log = await sent()
    harm(account, log)
    (found,) = check_log(log, [account])
    assert found.startswith(finding)


async def test_a_record_has_one_outcome() -> None:
    account, _ = await sent()
    with pytest.raises(RuntimeError, match="record 3 was given a second outcome"):
        account.fail(3, DeliveryTimeoutError("late"))


async def test_progress_is_a_record_that_was_sent_after_it_was_asked_for() -> None:
    account = Account("a", "t")
    old = account.take()
    waiting = asyncio.create_task(account.progress())
    await asyncio.sleep(0)
    account.acknowledge(old, 0, 0)
    await asyncio.sleep(0)
    assert not waiting.done()
    account.acknowledge(account.take(), 0, 1)
    await asyncio.wait_for(waiting, 10)
