"""The simulation's transactions: a checker that finds each broken promise, in the product and sentence by sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy import RecordMetadata
from aiokafkapy.broker.coordination import transaction_coordinator as coordination
from aiokafkapy.broker.coordination.group_offsets import OffsetStore
from aiokafkapy.broker.coordination.transaction_markers import TransactionMarkers
from aiokafkapy.errors import BufferExhaustedError, KafkaError, KafkaTimeoutError, RecordTooLargeError
from aiokafkapy.producer.identity.transaction import Transaction, TransactionState
from aiokafkapy.producer.tables.arrow_send import ArrowSend
from aiokafkapy.producer.transactional.transaction_requests import TransactionRequests

from .run import run
from .transaction_checker import check_fencing, check_offset, check_transactions
from .transactional_workload import Instance, Outcome, Tried
from .workload import Sent


def test_a_seed_with_transactions_replays_exactly() -> None:
    for seed in range(3):
        first = run(seed, kind="transactions")
        assert first.counts["transactions"]
        assert first.fingerprint == run(seed, kind="transactions").fingerprint


# sabotage


def ignore_records_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    fail = Transaction.fail

    def ignore(self: Transaction, error: KafkaError) -> None:
        if self.state not in (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING_TRANSACTION):
            fail(self, error)

    monkeypatch.setattr(Transaction, "fail", ignore)


def take_a_commit_without_an_answer_for_done(monkeypatch: pytest.MonkeyPatch) -> None:
    end = TransactionRequests.end

    async def guess(self: TransactionRequests, *, committed: bool, timeout: float) -> None:
        try:
            await end(self, committed=committed, timeout=timeout)
        except KafkaTimeoutError:
            pass

    monkeypatch.setattr(TransactionRequests, "end", guess)


def take_a_commit_without_an_answer_for_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    end_failed = Transaction.end_failed

    def guess(self: Transaction, error: KafkaError) -> None:
        end_failed(self, error)
        error.outcome_unknown = False

    monkeypatch.setattr(Transaction, "end_failed", guess)


def wait_for_no_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table whose rows go into the open transaction."""
    opening = property(lambda self: self._intake.opening, lambda self, opening: None)
    monkeypatch.setattr(ArrowSend, "_opening", opening, raising=False)


def commit_what_was_to_be_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    write = TransactionMarkers._write

    def always(self: TransactionMarkers, *arguments: Any, is_commit: bool) -> None:
        write(self, *arguments, is_commit=True)

    monkeypatch.setattr(TransactionMarkers, "_write", always)


def forget_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    write = TransactionMarkers._write

    def all_but_one(self: TransactionMarkers, transaction: Any, *, is_commit: bool) -> None:
        transaction.partitions -= set(sorted(transaction.partitions)[:1])
        write(self, transaction, is_commit=is_commit)

    monkeypatch.setattr(TransactionMarkers, "_write", all_but_one)


def forget_the_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OffsetStore, "end_pending", lambda *_, **__: None)


def fence_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiokafkapy.broker.storage.producer_state import ProducerStateManager

    monkeypatch.setattr(coordination, "_check_producer", lambda *_: None)
    monkeypatch.setattr(ProducerStateManager, "check", lambda *_, **__: None)
    monkeypatch.setattr(ProducerStateManager, "check_epoch", lambda *_, **__: None)


# Where to look first: some four seeds of a thousand have a table that waits for metadata while a transaction ends, and
# some five of a hundred a commit that is never answered.
FIRST_SEEDS: dict[Callable[..., None], int] = {
    wait_for_no_metadata: 305,
    take_a_commit_without_an_answer_for_done: 18,
    take_a_commit_without_an_answer_for_undone: 18,
}


@pytest.mark.parametrize(
    ("sabotage", "finding"),
    [
        (ignore_records_that_fail, "that failed"),
        (take_a_commit_without_an_answer_for_done, "lacks record"),
        (take_a_commit_without_an_answer_for_undone, "that can only be aborted cannot be"),
        (wait_for_no_metadata, "record"),
        (commit_what_was_to_be_aborted, "not committed, shows record"),
        (forget_a_partition, "has no end"),
        (forget_the_offsets, "the group's offset is None"),
        (fence_nobody, "and another one was ready"),
    ],
)
def test_seeds_find_a_fault_in_the_product(
    sabotage: Callable[[pytest.MonkeyPatch], None], finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch)
    first = FIRST_SEEDS.get(sabotage, 0)
    for seed in range(first, first + 150):
        if any(finding in found for found in run(seed, kind="transactions").findings):
            return
    pytest.fail("150 seeds found nothing")


# the checker, sentence by sentence

FIRST = Instance(0.0, 1.0)
SECOND = Instance(2.0, 3.0)
AT = RecordMetadata("t", 0, 0, 0, -1, 1)
TOO_LARGE = RecordTooLargeError("too large", size=2, limit=1)


def tried(
    outcome: Outcome, *outcomes: Any, commit_began: float = 1.5, instance: Instance = FIRST, **fields: Any
) -> Tried:
    """A transaction whose records are named 0, 1, … and had these outcomes."""
    records = [Sent(0, order, b"%d" % order, 1.0, outcome=each) for order, each in enumerate(outcomes)]
    return Tried(instance, 7, outcome, records, commit_began=commit_began, **fields)


C, N, U = Outcome.COMMITTED, Outcome.NOT_COMMITTED, Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("transaction", "log", "finding"),
    [
        (tried(C, AT, AT), [b"0", b"1"], None),
        (tried(C, AT, BufferExhaustedError("full")), [b"0"], None),
        (tried(C, AT, AT), [b"0"], "lacks record 1, one of 1"),
        (tried(C, AT), [b"0", b"0"], "has record 0 2 times"),
        (tried(C, AT, TOO_LARGE), [b"0"], "had a record 1 that failed"),
        (tried(C, AT, offset_error=KafkaError("no")), [b"0"], "had an error of its offsets"),
        (tried(N, AT, AT), [], None),
        (tried(N, AT, AT), [b"1"], "shows record 1, one of 1"),
        (tried(U, AT, AT), [b"0", b"1"], None),
        (tried(U, AT, AT), [], None),
        (tried(U, AT, AT), [b"1"], "shows record 1 and lacks 0"),
        (tried(C, AT), [b"0", b"2"], "b'2' was sent in no transaction and is committed"),
    ],
)
def test_the_checker_tells_each_broken_promise(transaction: Tried, log: list[bytes], finding: str | None) -> None:
    found = list(check_transactions([transaction], [b"0", b"1", b"2"], {0: log}))
    assert [finding in each for each in found] == [True] if finding else not found


@pytest.mark.parametrize(
    ("transactions", "log", "offsets"),
    [
        ([], [], {None}),
        ([tried(C, offset=1, has_offset=True)], [], {1}),
        ([tried(C, offset=1, has_offset=True), tried(N, offset=2, has_offset=True)], [], {1}),
        ([tried(C, offset=1, has_offset=True), tried(U, offset=2, has_offset=True)], [], {1, 2}),
        ([tried(C, offset=1, has_offset=True), tried(U, AT, offset=2, has_offset=True)], [], {1}),
        ([tried(C, offset=1, has_offset=True), tried(U, AT, offset=2, has_offset=True)], [b"0"], {2}),
        ([tried(C, offset=1, has_offset=True), tried(C, offset=2)], [], {1, 2}),
    ],
)
def test_the_checker_knows_the_last_offset(transactions: list[Tried], log: list[bytes], offsets: set[Any]) -> None:
    right = {offset for offset in (None, 1, 2) if not list(check_offset(transactions, {0: log}, offset))}
    assert right == offsets


@pytest.mark.parametrize(
    ("transaction", "is_found"),
    [
        (tried(C, AT, commit_began=3.5), True),
        (tried(C, AT, commit_began=2.5), False),
        (tried(N, AT, commit_began=3.5), False),
        (tried(U, AT, commit_began=3.5), False),
        (tried(C, commit_began=3.5), False),
        (tried(C, offset=1, has_offset=True, commit_began=3.5), True),
        (tried(C, AT, commit_began=3.5, instance=SECOND), False),
    ],
)
def test_the_checker_knows_the_fenced_user(transaction: Tried, is_found: bool) -> None:
    assert bool(list(check_fencing([transaction], [FIRST, SECOND]))) is is_found
