"""The order of calls at the ends of transactions: commits, aborts, two phases, pipelining, and the first records."""

from __future__ import annotations

import asyncio

import pytest

from aiokafkapy.errors import (
    IllegalStateError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaTimeoutError,
    MessageTooLargeError,
    ProducerClosedError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from aiokafkapy.producer.identity.transaction import PreparedTxnState, TransactionState
from aiokafkapy.producer.transactional.group_offsets import GroupMetadata
from aiokafkapy.producer.transactional.transactions import KEPT_BY_BROKERS
from tests.unit.virtual_time import elapsed, on_virtual_time

from .harness import IDENTITY, OFFSETS, A, World, offsets_under_way, settle

S = TransactionState


def is_held(world: World) -> bool:
    """True while the first records wait; a call, so that a type checker does not remember its result."""
    return world.transaction.is_held


def watchers() -> int:
    """Tasks that wait for markers."""
    return sum(task.get_name() == "aiokafkapy-transaction-markers" for task in asyncio.all_tasks())


class TestBeginning:
    """``initialize`` and ``begin``."""

    @on_virtual_time
    async def test_the_id_is_taken_and_then_the_gate_opens(self) -> None:
        world = World()
        await world.transactions.initialize()
        await world.transactions.begin()
        assert world.log == ["init", "open"]
        assert world.transaction.is_open

    @on_virtual_time
    async def test_an_id_that_cannot_be_taken_is_fatal(self) -> None:
        world = World()
        world.will("init", ProducerFencedError("taken"))
        with pytest.raises(ProducerFencedError):
            await world.transactions.initialize()
        assert world.transaction.state is S.FATAL_ERROR
        assert not world.transactions.is_usable

    @pytest.mark.parametrize(
        ("two_phases", "keeps", "call"), [(True, True, "init keeping"), (False, True, "init"), (True, False, "init")]
    )
    @on_virtual_time
    async def test_a_prepared_transaction_is_kept_with_two_phases_only(
        self, two_phases: bool, keeps: bool, call: str
    ) -> None:
        world = World(two_phases=two_phases, keeps_prepared=keeps)
        await world.transactions.initialize()
        assert world.log == [call]

    @on_virtual_time
    async def test_initialize_asks_again_for_a_commit_without_an_answer(self) -> None:
        world = await World().begun(A)
        world.will("commit", KafkaTimeoutError("no answer"))
        with pytest.raises(KafkaTimeoutError):
            await world.transactions.commit()
        assert not world.transactions.may_be_aborted
        world.log.clear()
        await world.transactions.begin()
        assert [call for call in world.log if call != "flush"] == ["shut", "commit", "open"]
        assert world.transaction.is_open

    @on_virtual_time
    async def test_initialize_asks_again_for_an_abort_without_an_answer(self) -> None:
        world = await World().begun(A)
        world.will("abort", KafkaTimeoutError("no answer"))
        with pytest.raises(KafkaTimeoutError):
            await world.transactions.abort()
        world.log.clear()
        await world.transactions.begin()
        assert world.log.count("abort") == 1
        assert world.transaction.is_open

    @on_virtual_time
    async def test_begin_waits_for_the_end_of_the_transaction_before(self) -> None:
        world = await World().begun(A)
        answer = world.loop.create_future()
        world.will("commit", answer)
        commit = asyncio.create_task(world.transactions.commit())
        await settle()
        begin = asyncio.create_task(world.transactions.begin())
        await settle()
        assert not begin.done()
        answer.set_result(None)
        await asyncio.gather(commit, begin)
        assert world.log[:4] == ["shut", "flush", "commit", "open"]

    @on_virtual_time
    async def test_begin_does_not_take_the_outcome_of_the_transaction_before_for_its_own(self) -> None:
        world = await World().begun()
        await world.transactions.commit()
        await world.transactions.begin()
        assert not world.transactions.was_committed

    @pytest.mark.parametrize(
        ("call", "arguments"),
        [("commit", ()), ("commit_and_begin", ()), ("abort", ()), ("prepare", ()), ("complete", (IDENTITY,))],
    )
    @on_virtual_time
    async def test_every_call_waits_for_the_end_under_way(self, call: str, arguments: tuple[object, ...]) -> None:
        world = await World(two_phases=True).begun(A)
        answer = world.loop.create_future()
        world.will("commit", answer)
        left = asyncio.create_task(world.transactions.commit())
        await settle()
        left.cancel()
        task = asyncio.create_task(getattr(world.transactions, call)(*arguments))
        await settle()
        calls = list(world.log)
        assert not task.done()
        answer.set_result(None)
        await asyncio.wait([task])
        assert world.log[: len(calls)] == calls == ["shut", "flush", "commit"]
        if (error := task.exception()) is not None:
            assert isinstance(error, IllegalStateError)  # that one has ended, and no other is open

    @on_virtual_time
    async def test_a_producer_that_ended_is_of_no_use(self) -> None:
        world = await World().started()
        assert world.transactions.is_usable
        world.runtime.is_usable_here = False
        assert not world.transactions.is_usable


class TestCommit:
    """``commit`` and ``scope``."""

    @on_virtual_time
    async def test_the_gate_shuts_records_have_outcomes_and_the_coordinator_is_asked(self) -> None:
        world = await World().begun(A)
        await world.transactions.commit()
        assert world.log == ["shut", "flush", "commit"]
        assert world.transaction.state is S.READY
        assert world.transactions.was_committed

    @on_virtual_time
    async def test_a_transaction_without_records_asks_for_nothing(self) -> None:
        world = await World().begun()
        await world.transactions.commit()
        assert world.log == ["shut", "flush"]
        assert world.transactions.was_committed

    @on_virtual_time
    async def test_a_record_that_fails_in_the_flush_leaves_only_an_abort(self) -> None:
        world = await World().begun(A)
        flushed = world.loop.create_future()
        world.will("flush", flushed)
        commit = asyncio.create_task(world.transactions.commit())
        await settle()
        world.transaction.fail(MessageTooLargeError("too large"))
        flushed.set_result(None)
        with pytest.raises(MessageTooLargeError):
            await commit
        assert "commit" not in world.log
        assert world.transaction.state is S.ABORTABLE_ERROR
        assert not world.transactions.was_committed

    @on_virtual_time
    async def test_an_error_of_the_transaction_drops_the_records_in_a_later_turn(self) -> None:
        world = await World().begun(A)
        world.waiting = ["one"]
        failure = MessageTooLargeError("too large")
        world.transaction.fail(failure)
        assert world.log == ["shut"]
        assert world.refused == []
        await settle()
        ((record, error),) = world.refused
        assert (record, type(error), error.__cause__) == ("one", TransactionAbortedError, failure)
        assert [type(dropped) for dropped in world.dropped] == [TransactionAbortedError]

    @on_virtual_time
    async def test_waiting_records_fail_with_the_fatal_error_itself(self) -> None:
        world = await World().begun(A)
        world.waiting = ["one"]
        world.transaction.fail(ProducerFencedError("taken"))
        await settle()
        assert [type(error) for _, error in world.refused] == [ProducerFencedError]

    @on_virtual_time
    async def test_a_refused_commit_may_be_aborted(self) -> None:
        world = await World().begun(A)
        world.will("commit", TransactionAbortableError("no"))
        with pytest.raises(TransactionAbortableError):
            await world.transactions.commit()
        assert world.transaction.state is S.ABORTABLE_ERROR
        await settle()
        assert world.log == ["shut", "flush", "commit", "shut", "abort_undrained"]

    @on_virtual_time
    async def test_a_cancelled_caller_leaves_the_commit_to_come_to_its_end(self) -> None:
        world = await World().begun(A)
        answer = world.loop.create_future()
        world.will("commit", answer)
        commit = asyncio.create_task(world.transactions.commit())
        await settle()
        commit.cancel()
        await settle()
        assert commit.cancelled()
        assert world.transaction.state is S.COMMITTING_TRANSACTION
        answer.set_result(None)
        await world.transactions.settled()
        assert world.transactions.was_committed

    @on_virtual_time
    async def test_a_commit_that_fails_after_its_caller_was_cancelled_is_aborted(self) -> None:
        world = await World().begun(A)
        answer = world.loop.create_future()
        world.will("commit", answer)
        commit = asyncio.create_task(world.transactions.commit())
        await settle()
        commit.cancel()
        await settle()
        answer.set_exception(TransactionAbortableError("no"))
        await world.transactions.settled()
        assert world.log.count("abort") == 1
        assert world.transaction.state is S.READY
        assert not world.transactions.was_committed

    @on_virtual_time
    async def test_a_commit_in_doubt_is_not_aborted_though_its_caller_was_cancelled(self) -> None:
        world = await World().begun(A)
        answer = world.loop.create_future()
        world.will("commit", answer)
        commit = asyncio.create_task(world.transactions.commit())
        await settle()
        commit.cancel()
        await settle()
        answer.set_exception(KafkaTimeoutError("no answer"))
        await world.transactions.settled()
        assert "abort" not in world.log
        assert world.transaction.state is S.COMMITTING_TRANSACTION

    @on_virtual_time
    async def test_the_cancellation_of_one_caller_does_not_abort_the_next_transaction(self) -> None:
        world = await World().begun(A)
        answer = world.loop.create_future()
        world.will("commit", answer, TransactionAbortableError("no"))
        commit = asyncio.create_task(world.transactions.commit())
        await settle()
        commit.cancel()
        await settle()
        answer.set_result(None)
        await world.transactions.begin()
        world.transaction.partitions.add(A)
        with pytest.raises(TransactionAbortableError):
            await world.transactions.commit()
        assert "abort" not in world.log

    @on_virtual_time
    async def test_a_scope_commits_at_its_end(self) -> None:
        world = await World().started()
        async with world.transactions.scope():
            world.transaction.partitions.add(A)
        assert world.log == ["usable", "open", "usable", "shut", "flush", "commit"]

    @on_virtual_time
    async def test_a_scope_aborts_when_an_exception_leaves_it(self) -> None:
        world = await World().started()
        with pytest.raises(LookupError):
            async with world.transactions.scope():
                world.transaction.partitions.add(A)
                raise LookupError
        assert world.log == ["usable", "open", "shut", "abort_undrained", "flush", "abort"]
        assert world.transaction.state is S.READY

    @on_virtual_time
    async def test_a_scope_notes_that_its_abort_failed(self) -> None:
        world = await World().started()
        world.will("abort", KafkaTimeoutError("no answer"))
        with pytest.raises(LookupError) as caught:
            async with world.transactions.scope():
                world.transaction.partitions.add(A)
                raise LookupError
        (note,) = caught.value.__notes__
        assert note.startswith("the transaction was not aborted: ")
        assert "no answer" in note

    @on_virtual_time
    async def test_a_scope_does_not_abort_a_commit_without_an_answer(self) -> None:
        world = await World().started()
        world.will("commit", KafkaTimeoutError("no answer"))
        with pytest.raises(KafkaTimeoutError) as caught:
            async with world.transactions.scope():
                world.transaction.partitions.add(A)
        assert caught.value.outcome_unknown
        assert "abort" not in world.log


class TestAbort:
    """``abort``, ``close`` and ``abandon``."""

    @on_virtual_time
    async def test_unsent_records_are_dropped_before_sent_ones_are_waited_for(self) -> None:
        world = await World().begun(A)
        world.waiting = ["one", "two"]
        await world.transactions.abort()
        assert world.log == ["shut", "abort_undrained", "flush", "abort"]
        assert [(record, type(error)) for record, error in world.refused] == [
            ("one", TransactionAbortedError),
            ("two", TransactionAbortedError),
        ]
        assert world.refused[0][1] is not world.refused[1][1]

    @on_virtual_time
    async def test_abort_does_nothing_without_an_open_transaction(self) -> None:
        world = await World().started()
        await world.transactions.abort()
        assert world.log == []

    @pytest.mark.parametrize(
        ("version", "failed", "calls"),
        [(1, True, ["abort", "init"]), (1, False, ["abort"]), (2, True, ["abort"])],
    )
    @on_virtual_time
    async def test_a_batch_without_an_outcome_needs_another_epoch_in_version_1(
        self, version: int, failed: bool, calls: list[str]
    ) -> None:
        world = await World(version=version).begun(A)
        world.transaction.needs_new_epoch = failed
        await world.transactions.abort()
        assert world.log[3:] == calls
        assert not world.transaction.needs_new_epoch

    @on_virtual_time
    async def test_a_time_out_of_the_broker_is_mended_by_another_epoch(self) -> None:
        world = await World().begun(A)
        world.transaction.fail(InvalidProducerEpochError("ended"))
        world.will("abort", ProducerFencedError("ended"))
        await world.transactions.abort()
        assert world.log[-2:] == ["abort", "init"]
        assert world.transaction.state is S.READY

    @on_virtual_time
    async def test_another_producer_is_fatal(self) -> None:
        world = await World().begun(A)
        world.will("abort", ProducerFencedError("taken"))
        with pytest.raises(ProducerFencedError):
            await world.transactions.abort()
        assert "init" not in world.log
        assert world.transaction.state is S.FATAL_ERROR

    @on_virtual_time
    async def test_a_transaction_that_was_open_there_and_is_not_is_fatal(self) -> None:
        world = await World(version=1).begun(A)
        world.transaction.unanswered = 1
        world.will("abort", InvalidTxnStateError("none is open"))
        with pytest.raises(InvalidTxnStateError):
            await world.transactions.abort()
        assert world.transaction.state is S.FATAL_ERROR

    @on_virtual_time
    async def test_another_attempt_after_the_epoch_had_no_answer_asks_for_the_epoch_only(self) -> None:
        world = await World(version=1).begun(A)
        world.transaction.needs_new_epoch = True
        world.will("init", KafkaTimeoutError("no answer"))
        with pytest.raises(KafkaTimeoutError):
            await world.transactions.abort()
        world.log.clear()
        await world.transactions.abort()
        assert world.log == ["shut", "abort_undrained", "flush", "init"]

    @on_virtual_time
    async def test_close_aborts_an_open_transaction(self) -> None:
        world = await World().begun(A)
        await world.transactions.close(world.loop.time() + 1)
        assert world.log[-1] == "abort"
        world.log.clear()
        await world.transactions.close(world.loop.time() + 1)
        assert world.log == []

    @on_virtual_time
    async def test_close_returns_at_its_deadline(self) -> None:
        world = await World().begun(A)
        world.will("flush", world.loop.create_future())
        begun = world.loop.time()
        await world.transactions.close(begun + 5)
        assert world.loop.time() == pytest.approx(begun + 5)
        assert world.transaction.is_unfinished
        world.transactions.abandon()
        await world.transactions.settled()

    @pytest.mark.parametrize(("end", "unknown"), [("commit", True), ("abort", False)])
    @on_virtual_time
    async def test_an_abandoned_end_tells_its_caller(self, end: str, unknown: bool) -> None:
        world = await World().begun(A)
        world.will(end, world.loop.create_future())
        task = asyncio.create_task(getattr(world.transactions, end)())
        await settle()
        world.transactions.abandon()
        with pytest.raises(ProducerClosedError) as caught:
            await task
        assert caught.value.outcome_unknown is unknown


class TestTwoPhases:
    """``prepare`` and ``complete`` (KIP-939)."""

    @on_virtual_time
    async def test_every_record_has_its_outcome_before_the_name_is_returned(self) -> None:
        world = await World(two_phases=True).begun(A)
        assert await world.transactions.prepare() == IDENTITY
        assert world.log == ["shut", "flush"]
        assert world.transaction.state is S.PREPARED_TRANSACTION

    @on_virtual_time
    async def test_prepare_needs_the_option(self) -> None:
        world = await World().begun(A)
        with pytest.raises(IllegalStateError, match="transaction_two_phase_commit_enable=True"):
            await world.transactions.prepare()
        assert world.log == []

    @on_virtual_time
    async def test_it_needs_an_open_transaction(self) -> None:
        world = await World(two_phases=True).started()
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            await world.transactions.prepare()
        assert world.log == []

    @on_virtual_time
    async def test_a_failed_flush_leaves_the_transaction_open(self) -> None:
        world = await World(two_phases=True).begun(A)
        world.will("flush", KafkaTimeoutError("no"))
        with pytest.raises(KafkaTimeoutError):
            await world.transactions.prepare()
        assert world.log == ["shut", "flush", "reopen"]
        assert world.transaction.is_open

    @on_virtual_time
    async def test_a_prepare_that_is_cancelled_leaves_the_transaction_open(self) -> None:
        world = await World(two_phases=True).begun(A)
        world.will("flush", world.loop.create_future())
        preparing = asyncio.create_task(world.transactions.prepare())
        await settle()
        preparing.cancel()
        await asyncio.wait([preparing])
        assert world.log == ["shut", "flush", "reopen"]  # calls that were under way go on

    @on_virtual_time
    async def test_the_gate_stays_shut_for_another_call_that_is_under_way(self) -> None:
        world = await World(two_phases=True).begun(A)
        flushed = world.loop.create_future()
        world.will("flush", world.loop.create_future(), flushed)
        given_up, kept = (asyncio.create_task(world.transactions.prepare()) for _ in range(2))
        await settle()
        given_up.cancel()
        await asyncio.wait([given_up])
        assert "reopen" not in world.log
        flushed.set_result(None)
        assert await kept == IDENTITY
        assert world.log == ["shut", "flush", "shut", "flush"]

    @on_virtual_time
    async def test_the_last_call_that_is_given_up_opens_the_gate_again(self) -> None:
        world = await World(two_phases=True).begun(A)
        world.will("flush", world.loop.create_future(), world.loop.create_future())
        calls = [asyncio.create_task(world.transactions.prepare()) for _ in range(2)]
        await settle()
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        assert world.log.count("reopen") == 1

    @on_virtual_time
    async def test_offsets_under_way_are_waited_for(self) -> None:
        world = await World(two_phases=True).begun(A)
        call, answer = await offsets_under_way(world)
        preparing = asyncio.create_task(world.transactions.prepare())
        await settle()
        assert not preparing.done()
        answer.set_result(None)
        await asyncio.gather(preparing, call)
        assert world.transaction.state is S.PREPARED_TRANSACTION

    @on_virtual_time
    async def test_the_error_of_a_record_that_failed_is_raised_and_the_gate_stays_shut(self) -> None:
        world = await World(two_phases=True).begun(A)
        flushed = world.loop.create_future()
        world.will("flush", flushed)
        preparing = asyncio.create_task(world.transactions.prepare())
        await settle()
        world.transaction.fail(MessageTooLargeError("too large"))
        flushed.set_result(None)
        with pytest.raises(MessageTooLargeError):
            await preparing
        assert "open" not in world.log

    @pytest.mark.parametrize(
        ("name", "end"), [(IDENTITY, "commit"), (PreparedTxnState(7, 1), "abort"), (None, "abort")]
    )
    @on_virtual_time
    async def test_the_name_decides_the_end(self, name: PreparedTxnState | None, end: str) -> None:
        world = await World(two_phases=True).begun(A)
        await world.transactions.prepare()
        assert await world.transactions.complete(name) is (end == "commit")
        assert world.log[-1] == end
        assert world.transaction.state is S.READY

    @pytest.mark.parametrize(("name", "end"), [(IDENTITY, "commit"), (None, "abort")])
    @on_virtual_time
    async def test_a_transaction_of_an_earlier_producer_is_completed_without_its_records(
        self, name: PreparedTxnState | None, end: str
    ) -> None:
        world = World(two_phases=True, keeps_prepared=True)
        world.kept = IDENTITY
        await world.transactions.initialize()
        with pytest.raises(IllegalStateError, match="is prepared"):
            await world.transactions.begin()
        assert await world.transactions.complete(name) is (end == "commit")
        assert world.log[-1] == end

    @on_virtual_time
    async def test_a_completed_transaction_is_neither_committed_nor_aborted_again(self) -> None:
        world = await World(two_phases=True).started()
        assert await world.transactions.complete(IDENTITY) is False
        assert world.log == []

    @pytest.mark.parametrize(("name", "end"), [(IDENTITY, "commit"), (None, "abort")])
    @on_virtual_time
    async def test_an_end_without_an_answer_is_asked_for_again(self, name: PreparedTxnState | None, end: str) -> None:
        world = await World(two_phases=True).begun(A)
        await world.transactions.prepare()
        world.will(end, KafkaTimeoutError("no answer"))
        with pytest.raises(KafkaTimeoutError):
            await world.transactions.complete(name)
        assert await world.transactions.complete(name) is (end == "commit")
        assert world.log.count(end) == 2

    @on_virtual_time
    async def test_an_abort_without_an_answer_stays_one_under_the_right_name(self) -> None:
        world = await World(two_phases=True).begun(A)
        await world.transactions.prepare()
        world.will("abort", KafkaTimeoutError("no answer"))
        with pytest.raises(KafkaTimeoutError):
            await world.transactions.complete(None)
        assert await world.transactions.complete(IDENTITY) is False
        assert "commit" not in world.log

    @on_virtual_time
    async def test_an_open_transaction_is_not_completed(self) -> None:
        world = await World(two_phases=True).begun(A)
        with pytest.raises(IllegalStateError, match="needs the state prepared_transaction"):
            await world.transactions.complete(IDENTITY)


class TestPipelining:
    """``commit_and_begin``: the next transaction takes records while this one is committed."""

    @on_virtual_time
    async def test_records_are_cut_where_the_next_begins_and_the_commit_follows(self) -> None:
        world = await World(version=1).begun(A)
        await world.transactions.commit_and_begin()
        assert world.log == ["usable", "cut", "begin_flush", "open", "flush.end", "commit", "wakeup"]
        assert world.transaction.is_open
        assert world.transaction.cut is None
        assert not world.transactions.was_committed  # the next one is open

    @on_virtual_time
    async def test_waiting_records_are_accepted_before_the_cut(self) -> None:
        world = await World().begun(A)
        world.waiting = ["one", "two"]
        await world.transactions.commit_and_begin()
        assert world.log.index("admitted one two") < world.log.index("cut")

    @on_virtual_time
    async def test_the_commit_waits_for_the_outcomes_before_the_cut(self) -> None:
        world = await World().begun(A)
        world.is_flush_settled = False
        task = asyncio.create_task(world.transactions.commit_and_begin())
        await settle()
        assert world.log[-1] == "open"
        assert world.transaction.is_of_next(A, 1)
        assert not world.transaction.is_of_next(A, 0)
        (settled,) = world.answers["settled"]
        assert isinstance(settled, asyncio.Future)
        settled.set_result(None)
        await task
        assert "commit" in world.log
        assert not world.transaction.is_of_next(A, 1)

    @on_virtual_time
    async def test_a_failed_commit_fails_the_next_one_too(self) -> None:
        world = await World().begun(A)
        failure = TransactionAbortableError("no")
        world.will("commit", failure)
        with pytest.raises(TransactionAbortableError):
            await world.transactions.commit_and_begin()
        assert world.transaction.cut is None
        assert world.transaction.state is S.ABORTABLE_ERROR
        assert world.dropped[0].__cause__ is failure
        assert world.log[-1] == "abort_undrained"
        assert "abort" not in world.log

    @on_virtual_time
    async def test_the_gate_shuts_when_the_commit_has_no_answer(self) -> None:
        world = await World().begun(A)
        world.will("commit", KafkaTimeoutError("no answer"))
        with pytest.raises(KafkaTimeoutError):
            await world.transactions.commit_and_begin()
        assert world.log[-3:] == ["commit", "shut", "abort_undrained"]

    @on_virtual_time
    async def test_a_closed_transaction_is_not_committed(self) -> None:
        world = await World().started()
        with pytest.raises(IllegalStateError, match="commit_and_begin_transaction"):
            await world.transactions.commit_and_begin()
        assert world.log == ["usable"]

    @on_virtual_time
    async def test_a_transaction_that_fails_after_its_caller_was_cancelled_is_aborted(self) -> None:
        world = await World().begun(A)
        answer = world.loop.create_future()
        world.will("commit", answer)
        task = asyncio.create_task(world.transactions.commit_and_begin())
        await settle()
        task.cancel()
        await settle()
        answer.set_exception(TransactionAbortableError("no"))
        await world.transactions.settled()
        assert world.log.count("abort") == 1
        assert world.transaction.state is S.READY

    @on_virtual_time
    async def test_the_first_records_of_the_next_transaction_wait_for_the_markers(self) -> None:
        world = await World().begun(A)
        world.will("markers", world.loop.create_future())
        await world.transactions.commit_and_begin()
        assert is_held(world)
        await elapsed(KEPT_BY_BROKERS)
        assert not is_held(world)


class TestFirstRecords:
    """No gap between transactions: the first records wait for markers, as long as a broker would keep them."""

    @on_virtual_time
    async def test_first_records_are_released_when_the_markers_are_written(self) -> None:
        world = await World().begun(A)
        await world.transactions.commit()
        written = world.loop.create_future()
        world.will("markers", written)
        await world.transactions.begin()
        await settle()
        assert is_held(world)
        before = world.loop.time()
        written.set_result(None)
        await settle()
        assert not is_held(world)
        assert world.log[-1] == "wakeup"
        assert world.loop.time() == before

    @pytest.mark.parametrize("trouble", ["silence", "an error"])
    @on_virtual_time
    async def test_a_coordinator_that_does_not_tell_holds_first_records_for_a_moment_only(self, trouble: str) -> None:
        world = await World().begun(A)
        await world.transactions.commit()
        world.will("markers", world.loop.create_future() if trouble == "silence" else KafkaTimeoutError("no"))
        await world.transactions.begin()
        assert is_held(world)
        await elapsed(KEPT_BY_BROKERS * 1.01)
        assert not is_held(world)
        assert world.log[-1] == "wakeup"

    @pytest.mark.parametrize(("version", "pause"), [(1, 0.0), (2, KEPT_BY_BROKERS)])
    @on_virtual_time
    async def test_first_records_do_not_wait_in_version_1_or_after_a_pause(self, version: int, pause: float) -> None:
        world = await World(version=version).begun(A)
        await world.transactions.commit()
        await elapsed(pause)
        await world.transactions.begin()
        await settle()
        assert not is_held(world)
        assert "markers" not in world.log

    @on_virtual_time
    async def test_first_records_wait_after_an_abort_as_well(self) -> None:
        world = await World().begun(A)
        await world.transactions.abort()
        world.will("markers", world.loop.create_future())
        await world.transactions.begin()
        assert is_held(world)
        world.transactions.abandon()
        await settle()
        assert not is_held(world)
        assert watchers() == 0

    @on_virtual_time
    async def test_one_task_waits_for_markers_however_short_transactions_are(self) -> None:
        world = await World().begun(A)
        for _ in range(3):
            world.will("markers", world.loop.create_future())
            await world.transactions.commit_and_begin()
            world.transaction.partitions.add(A)
            await settle()
            assert watchers() == 1
        world.transactions.abandon()

    @on_virtual_time
    async def test_offsets_wait_with_the_first_records(self) -> None:
        world = await World().begun(A)
        await world.transactions.commit()
        written = world.loop.create_future()
        world.will("markers", written)
        await world.transactions.begin()
        sending = asyncio.create_task(world.transactions.send_offsets(OFFSETS, GroupMetadata("g")))
        await settle()
        assert "offsets g" not in world.log
        written.set_result(None)
        await sending
        assert "offsets g" in world.log


class TestPartitionsAtAnEnd:
    """AddPartitionsToTxn under way when the transaction ends."""

    @on_virtual_time
    async def test_a_commit_waits_for_the_answer(self) -> None:
        world = await World(version=1).begun(A)
        world.adding = world.loop.create_future()
        commit = asyncio.create_task(world.transactions.commit())
        await settle()
        assert "commit" not in world.log
        world.adding.set_result(None)
        await commit
        assert world.log[-1] == "commit"

    @on_virtual_time
    async def test_an_abort_does_not_wait_and_takes_the_partitions_for_added(self) -> None:
        world = await World(version=1).begun()
        world.adding = world.loop.create_future()
        world.transaction.unanswered = 1
        await world.transactions.abort()
        assert world.adding.cancelled()
        assert world.log == ["shut", "abort_undrained", "flush", "abort", "init"]


def seconds(world: World) -> dict[str, float]:
    """The metrics of transactions that are not zero, by the middle of their names."""
    found = world.runtime.calls.snapshot(world.loop.time())
    times = {name.removeprefix("txn-").removesuffix("-time-ns-total"): value / 1e9 for name, value in found.items()}
    return {name: value for name, value in times.items() if f"txn-{name}-time-ns-total" in found and value}


def slow(world: World, call: str, delay: float) -> None:
    """The next call of this name takes so long."""
    answer = world.loop.create_future()
    world.will(call, answer)
    world.loop.call_later(delay, answer.set_result, None)


class TestMetrics:
    """Kafka's times of the calls."""

    @on_virtual_time
    async def test_each_call_has_its_time(self) -> None:
        world = World()
        slow(world, "init", 1)
        await world.transactions.initialize()
        await world.transactions.begin()
        world.transaction.partitions.add(A)
        slow(world, "offsets g", 2)
        await world.transactions.send_offsets(OFFSETS, GroupMetadata("g"))
        slow(world, "flush", 3)
        await world.transactions.commit()
        assert seconds(world) == pytest.approx({"init": 1, "send-offsets": 2, "commit": 3})
        await world.transactions.begin()
        slow(world, "flush", 4)
        await world.transactions.abort()
        assert seconds(world) == pytest.approx({"init": 1, "send-offsets": 2, "commit": 3, "abort": 4})

    @on_virtual_time
    async def test_a_commit_with_the_next_transaction_s_begin_is_a_commit(self) -> None:
        world = await World().begun(A)
        slow(world, "admitted r", 2)
        world.waiting.append("r")
        await world.transactions.commit_and_begin()
        assert seconds(world) == pytest.approx({"commit": 2})

    @on_virtual_time
    async def test_a_begin_that_waits_for_the_end_before_has_that_time(self) -> None:
        world = await World().begun(A)
        slow(world, "flush", 5)
        ending = asyncio.create_task(world.transactions.commit())
        await settle()
        await world.transactions.begin()
        await ending
        assert seconds(world) == pytest.approx({"begin": 5, "commit": 5})

    @on_virtual_time
    async def test_preparing_has_its_time(self) -> None:
        world = await World(two_phases=True).begun(A)
        slow(world, "flush", 6)
        await world.transactions.prepare()
        assert seconds(world) == pytest.approx({"prepare": 6})

    @on_virtual_time
    async def test_a_call_that_fails_has_none(self) -> None:
        world = await World().begun(A)
        world.will("flush", KafkaTimeoutError("late"))
        with pytest.raises(KafkaTimeoutError):
            await world.transactions.commit()
        assert seconds(world) == {}
