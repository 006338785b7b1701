"""Offsets that are added to a transaction, and their calls under way at its end."""

from __future__ import annotations

import asyncio

import pytest

from aiokafkapy.errors import (
    IllegalStateError,
    InvalidTxnStateError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    ProducerClosedError,
    TransactionAbortableError,
    TransactionAbortedError,
    UnknownMemberIdError,
)
from aiokafkapy.producer.identity.transaction import TransactionState
from aiokafkapy.producer.transactional.group_offsets import GroupMetadata
from aiokafkapy.producer.transactional.transactions import KEPT_BY_BROKERS
from tests.unit.virtual_time import elapsed, on_virtual_time

from .harness import OFFSETS, A, World, offsets_under_way, settle

S = TransactionState


class TestOffsets:
    """``send_offsets``."""

    @pytest.mark.parametrize(("version", "calls"), [(1, ["add g", "offsets g", "offsets g"]), (2, ["offsets g"] * 2)])
    @on_virtual_time
    async def test_a_group_is_added_once_in_version_1(self, version: int, calls: list[str]) -> None:
        world = await World(version=version).begun()
        for _ in range(2):
            await world.transactions.send_offsets(OFFSETS, GroupMetadata("g"))
        assert world.log == calls
        assert world.transaction.is_known_to_the_broker

    @on_virtual_time
    async def test_no_offsets_ask_for_nothing(self) -> None:
        world = await World().begun()
        await world.transactions.send_offsets({}, GroupMetadata("g"))
        assert world.log == []
        assert not world.transaction.is_known_to_the_broker

    @on_virtual_time
    async def test_offsets_need_an_open_transaction(self) -> None:
        world = await World().started()
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            await world.transactions.send_offsets({}, GroupMetadata("g"))

    @pytest.mark.parametrize("error", [KafkaTimeoutError("no answer"), TransactionAbortableError("no")])
    @on_virtual_time
    async def test_an_error_leaves_only_an_abort_which_the_broker_learns_of(self, error: KafkaError) -> None:
        world = await World().begun()
        world.will("offsets g", error)
        with pytest.raises(type(error)):
            await world.transactions.send_offsets(OFFSETS, GroupMetadata("g"))
        assert world.transaction.state is S.ABORTABLE_ERROR
        await world.transactions.abort()
        assert world.log[-1] == "abort"


class TestOffsetsAtAnEnd:
    """Calls of ``send_offsets`` under way when their transaction ends: they belong to it, and to no other."""

    @pytest.mark.parametrize("end", ["commit", "commit_and_begin"])
    @on_virtual_time
    async def test_a_commit_waits_for_the_calls(self, end: str) -> None:
        world = await World().begun(A)
        call, answer = await offsets_under_way(world)
        commit = asyncio.create_task(getattr(world.transactions, end)())
        await settle()
        assert "commit" not in world.log
        answer.set_result(None)
        await asyncio.gather(commit, call)
        assert world.log.count("commit") == 1

    @on_virtual_time
    async def test_a_commit_fails_with_the_calls(self) -> None:
        world = await World().begun(A)
        call, answer = await offsets_under_way(world)
        commit = asyncio.create_task(world.transactions.commit())
        await settle()
        answer.set_exception(UnknownMemberIdError("moved"))
        for task in (commit, call):
            with pytest.raises(UnknownMemberIdError):
                await task
        assert "commit" not in world.log
        assert world.transaction.state is S.ABORTABLE_ERROR

    @on_virtual_time
    async def test_a_commit_of_a_failed_transaction_does_not_wait_for_the_calls(self) -> None:
        world = await World().begun(A)
        call, answer = await offsets_under_way(world)
        world.transaction.fail(TransactionAbortableError("a record failed"))
        with pytest.raises(TransactionAbortableError, match="a record failed"):
            await world.transactions.commit()
        assert not answer.done()
        await world.transactions.abort()
        with pytest.raises(TransactionAbortedError):
            await call

    @on_virtual_time
    async def test_a_commit_waits_for_calls_that_wait_for_markers(self) -> None:
        world = await World().begun(A)
        await world.transactions.commit()
        world.will("markers", world.loop.create_future())
        await world.transactions.begin()
        world.log.clear()
        call = asyncio.create_task(world.transactions.send_offsets(OFFSETS, GroupMetadata("g")))
        await settle()
        await asyncio.gather(world.transactions.commit(), call)
        assert [name for name in world.log if name in ("offsets g", "commit")] == ["offsets g", "commit"]

    @pytest.mark.parametrize("is_in_commit", [False, True])
    @pytest.mark.parametrize(("version", "calls"), [(1, ["abort", "init"]), (2, ["abort"])])
    @on_virtual_time
    async def test_only_an_abort_is_left_after_a_cancelled_call(
        self, version: int, calls: list[str], is_in_commit: bool
    ) -> None:
        """In version 1 with another epoch, for its request may come late."""
        world = await World(version=version).begun(A)
        call, _ = await offsets_under_way(world)
        commit = asyncio.create_task(world.transactions.commit()) if is_in_commit else None
        await settle()
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        with pytest.raises(TransactionAbortableError, match="was cancelled before its answer came"):
            await (commit or world.transactions.commit())
        assert "commit" not in world.log
        await world.transactions.abort()
        assert [name for name in world.log if name in ("abort", "init")] == calls
        assert world.transaction.state is S.READY

    @on_virtual_time
    async def test_a_call_that_was_cancelled_with_its_answer_has_it(self) -> None:
        world = await World().begun(A)
        call, answer = await offsets_under_way(world)
        answer.set_result(None)
        for _ in range(2):  # until the answer is read, and before the caller has it
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        await world.transactions.commit()
        assert world.log[-1] == "commit"

    @pytest.mark.parametrize(("version", "calls"), [(1, ["abort", "init"]), (2, ["abort"])])
    @on_virtual_time
    async def test_an_abort_cancels_the_calls(self, version: int, calls: list[str]) -> None:
        world = await World(version=version).begun(A)
        call, answer = await offsets_under_way(world)
        await world.transactions.abort()
        assert answer.cancelled()
        with pytest.raises(TransactionAbortedError, match="before the offsets were added to it"):
            await call
        assert [name for name in world.log if name in ("abort", "init")] == calls
        assert not world.transaction.is_known_to_the_broker

    @on_virtual_time
    async def test_an_abort_cancels_calls_that_wait_for_markers(self) -> None:
        world = await World().begun(A)
        await world.transactions.commit()
        world.will("markers", world.loop.create_future())
        await world.transactions.begin()
        call = asyncio.create_task(world.transactions.send_offsets(OFFSETS, GroupMetadata("g")))
        await settle()
        await world.transactions.abort()
        await elapsed(KEPT_BY_BROKERS * 2)
        assert "offsets g" not in world.log
        with pytest.raises(TransactionAbortedError):
            await call
        await world.transactions.begin()
        assert not world.transaction.is_known_to_the_broker

    @on_virtual_time
    async def test_offsets_that_wait_for_markers_are_not_sent_in_a_transaction_that_failed(self) -> None:
        world = await World().begun(A)
        await world.transactions.commit()
        written = world.loop.create_future()
        world.will("markers", written)
        await world.transactions.begin()
        call = asyncio.create_task(world.transactions.send_offsets(OFFSETS, GroupMetadata("g")))
        await settle()
        world.transaction.fail(MessageTooLargeError("too large"))
        written.set_result(None)
        with pytest.raises(MessageTooLargeError):
            await call
        assert "offsets g" not in world.log

    @on_virtual_time
    async def test_a_producer_that_ends_tells_the_callers(self) -> None:
        world = await World().begun(A)
        call, _ = await offsets_under_way(world)
        world.runtime.is_usable_here = False
        world.transactions.abandon()
        with pytest.raises(ProducerClosedError):
            await call

    @pytest.mark.parametrize("answer", [None, InvalidTxnStateError("none is open")])
    @on_virtual_time
    async def test_a_group_that_may_have_been_added_is_ended(self, answer: KafkaError | None) -> None:
        """In version 1; a coordinator that had not heard of it has nothing to end."""
        world = await World(version=1).begun()
        world.will("add g", KafkaTimeoutError("no answer"))
        world.will("abort", answer)
        with pytest.raises(KafkaTimeoutError):
            await world.transactions.send_offsets(OFFSETS, GroupMetadata("g"))
        await world.transactions.abort()
        assert world.log[-2:] == ["abort", "init"]
        assert world.transaction.state is S.READY

    @on_virtual_time
    async def test_the_epoch_is_asked_for_again_after_an_abort_without_it(self) -> None:
        world = await World(version=1).begun(A)
        call, _ = await offsets_under_way(world)
        world.will("init", KafkaTimeoutError("no answer"))
        with pytest.raises(KafkaTimeoutError):
            await world.transactions.abort()
        await asyncio.gather(call, return_exceptions=True)
        world.log.clear()
        await world.transactions.abort()
        assert world.log == ["shut", "abort_undrained", "flush", "init"]
