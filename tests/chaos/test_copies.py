"""The judge of a copy finds each way in which it can differ from its source, and a transaction that was left open."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from .copies import CopyAccount, Ends, check_copy, check_ends
from .schedule import Way


class Record(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


Log = dict[int, list[Record]]


def log(*, gaps: int) -> Log:
    """Two partitions of five records; a transaction's marker leaves a gap after each ``gaps`` of them."""
    return {p: [Record(p, n + n // gaps, b"k%d" % p, b"%d:%d" % (p, n)) for n in range(5)] for p in range(2)}


def test_a_true_copy_passes_wherever_its_markers_are() -> None:
    assert check_copy(log(gaps=100), log(gaps=2)) == []
    assert check_copy({}, {}) == []


def lose(copy: Log) -> None:
    copy[1].pop(2)


def lose_the_end(copy: Log) -> None:
    copy[0].pop()


def double(copy: Log) -> None:
    copy[0].append(copy[0][2]._replace(offset=9))


def double_elsewhere(copy: Log) -> None:
    copy[1].append(copy[0][2]._replace(partition=1, offset=9))


def swap(copy: Log) -> None:
    first, second, *rest = copy[0]
    copy[0] = [second._replace(offset=0), first._replace(offset=1), *rest]


def misplace(copy: Log) -> None:
    copy[1].append(copy[0].pop()._replace(partition=1, offset=9))


def invent(copy: Log) -> None:
    copy[0].append(Record(0, 9, None, b"mine"))


def change_the_key(copy: Log) -> None:
    copy[0][4] = copy[0][4]._replace(key=b"other")


@pytest.mark.parametrize(
    ("harm", "findings"),
    [
        (lose, ["1 record lost: b'1:2' of (1, 2)"]),
        (lose_the_end, ["1 record lost: b'0:4' of (0, 4)"]),
        (double, ["1 record doubled: b'0:2' of (0, 2) is at [(0, 3), (0, 9)]"]),
        (double_elsewhere, ["1 record doubled: b'0:2' of (0, 2) is at [(0, 3), (1, 9)]"]),
        (swap, ["1 record out of order: b'0:1' of (0, 1) is before b'0:0' of (0, 0)"]),
        (misplace, ["1 record in another partition: b'0:4' of (0, 4) is at [(1, 9)]"]),
        (invent, ["1 record from nowhere: b'mine' is at [(0, 9)]"]),
        (change_the_key, ["1 record lost: b'0:4' of (0, 4)", "1 record from nowhere: b'0:4' is at [(0, 6)]"]),
    ],
)
def test_each_harm_is_found(harm: Callable[[Log], None], findings: list[str]) -> None:
    copy = log(gaps=2)
    harm(copy)
    assert check_copy(log(gaps=100), copy) == findings


def test_an_open_transaction_is_found() -> None:
    well = {0: Ends(5, 5), 1: Ends(0, 0)}
    assert list(check_ends({"a": well, "b": well})) == []
    (found,) = check_ends({"a": well, "b": well | {1: Ends(5, 9)}})
    assert found == "a transaction is open: b-1 can be read up to 5 of 9"


def test_an_account_knows_how_far_the_copy_has_come() -> None:
    account = CopyAccount()
    assert account.behind({0: 3, 1: 0}) == {0: 0}
    account.commit({0: 2}, 2)
    account.commit({0: 5, 1: 7}, 10)
    account.commit({0: 4}, 1)  # read before another copier went on
    assert account.behind({0: 5, 1: 8}) == {1: 7}


def test_an_account_tells_of_the_work() -> None:
    account = CopyAccount()
    account.commit({0: 5}, 1_005)
    account.begun_again.update(a=2, b=1)
    account.started.update(a=1, b=2)
    account.ends.update({"ProducerFencedError": 1, "told to": 2})
    account.strikes.update({Way.CRASH: 2})
    assert str(account).splitlines() == [
        "1,005 records copied in 1 transactions, 3 attempts made again",
        "  2 strikes: 2 crash",
        "  3 producers of 2 names, which ended: 1 ProducerFencedError, 2 told to",
    ]
