"""Errors that run a transaction again, their time limit and their pauses; commits without an answer are asked about."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from aiokafkapy.errors import (
    IllegalGenerationError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    ProducerFencedError,
    TransactionAbortableError,
)
from aiokafkapy.producer.transactional.attempts import Patience
from aiokafkapy.producer.transactional.transactions import Transactions
from tests.unit.producer.transactional.scripted import Scripted
from tests.unit.virtual_time import on_virtual_time

from .harness import NO_JITTER


@on_virtual_time
async def test_a_block_that_is_committed_runs_once() -> None:
    script = Scripted()
    assert await script.run() == 1
    assert script.log == ["begin", "end"]


@on_virtual_time
async def test_pauses_grow_from_attempt_to_attempt() -> None:
    script = Scripted()
    script.ends = [TransactionAbortableError("no"), KafkaTimeoutError("no"), TransactionAbortableError("no")]
    assert await script.run() == 4
    pauses = [later - earlier for earlier, later in zip(script.times, script.times[1:], strict=False)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4])


@on_virtual_time
async def test_a_beginning_is_tried_again_without_the_block() -> None:
    script = Scripted()
    script.begins = [KafkaTimeoutError("no"), None]
    assert await script.run() == 1
    assert script.log == ["begin", "begin", "end"]
    assert script.times[1] - script.times[0] == pytest.approx(0.1)


@pytest.mark.parametrize("error", [MessageTooLargeError("x"), ProducerFencedError("x"), IllegalGenerationError("x")])
@on_virtual_time
async def test_an_error_that_would_come_again_is_raised(error: KafkaError) -> None:
    script = Scripted()
    script.ends = [error]
    with pytest.raises(type(error)):
        await script.run()
    assert script.log == ["begin", "end"]


@on_virtual_time
async def test_an_error_that_the_loop_mends_is_tried_again() -> None:
    script = Scripted()
    script.ends = [IllegalGenerationError("x")]
    assert await script.run(also_mended=(IllegalGenerationError,)) == 2


@on_virtual_time
async def test_errors_of_the_block_count_like_those_of_the_commit() -> None:
    script = Scripted()
    runs = 0
    async for attempt in script.attempts():
        async with attempt:
            runs += 1
            if runs == 1:
                raise KafkaTimeoutError("in the block")
    assert runs == 2
    assert script.log == ["begin", "abort", "begin", "end"]


@on_virtual_time
async def test_another_exception_of_the_block_leaves_the_loop() -> None:
    script = Scripted()
    with pytest.raises(LookupError):
        async for attempt in script.attempts():
            async with attempt:
                raise LookupError
    assert script.log == ["begin", "abort"]


@on_virtual_time
async def test_time_runs_from_the_first_failure_and_the_last_error_says_how_long() -> None:
    script = Scripted()
    script.ends = [KafkaTimeoutError("no") for _ in range(100)]
    with pytest.raises(KafkaTimeoutError) as caught:
        await script.run(timeout=1.0)
    # 0.1 + 0.2 + 0.4 + 0.8 are more than a second
    assert caught.value.__notes__ == ["attempts to commit a transaction: 5, in 1 s"]
    assert script.times[-1] - script.times[0] == pytest.approx(1.5)


@on_virtual_time
async def test_progress_restarts_the_time() -> None:
    script = Scripted()
    patience = Patience(cast(Transactions, script), 1.0, NO_JITTER)
    for _ in range(20):
        scope = await patience.begun()
        assert await patience.settled(scope, KafkaTimeoutError("no")) is not None
        patience.begin_anew()
    assert script.times[-1] - script.times[0] == pytest.approx(19 * 0.1)


@on_virtual_time
async def test_a_producer_that_ended_is_not_tried_again() -> None:
    script = Scripted()
    script.ends = [KafkaTimeoutError("no")]
    script.is_usable = False
    with pytest.raises(KafkaTimeoutError):
        await script.run()
    assert script.log == ["begin", "end"]


class TestDoubt:
    """Commits that had no answer."""

    @on_virtual_time
    async def test_the_block_does_not_run_again_while_the_outcome_is_unknown(self) -> None:
        script = Scripted()
        script.ends, script.in_doubt = [KafkaTimeoutError("no answer")], 2
        script.commits = [KafkaTimeoutError("no answer"), None]
        assert await script.run() == 1
        assert script.log == ["begin", "end", "commit", "commit"]

    @on_virtual_time
    async def test_a_commit_that_was_refused_is_aborted_and_run_again(self) -> None:
        script = Scripted()
        script.ends, script.in_doubt = [KafkaTimeoutError("no answer")], 1
        script.commits = [TransactionAbortableError("no")]
        assert await script.run() == 2
        assert script.log == ["begin", "end", "commit", "abort", "begin", "end"]

    @on_virtual_time
    async def test_it_is_asked_about_until_the_producer_ends(self) -> None:
        script = Scripted()
        script.ends, script.in_doubt = [KafkaTimeoutError("no answer")], 9
        script.is_usable = False
        with pytest.raises(KafkaTimeoutError, match="no answer"):
            await script.run()
        assert script.log == ["begin", "end"]

    @on_virtual_time
    async def test_a_cancelled_caller_does_not_ask(self) -> None:
        script = Scripted()
        script.in_doubt = 9
        patience = Patience(cast(Transactions, script), 60.0, NO_JITTER)
        scope = await patience.begun()
        script.may_be_aborted = False
        with pytest.raises(asyncio.CancelledError):
            await patience.settled(scope, asyncio.CancelledError())
        assert "commit" not in script.log


class TestUse:
    """The form in which the loop must be written."""

    @on_virtual_time
    async def test_an_attempt_that_was_not_entered_is_an_error(self) -> None:
        with pytest.raises(IllegalStateError, match="was not entered"):
            async for _ in Scripted().attempts():
                pass

    @on_virtual_time
    async def test_an_attempt_is_entered_once(self) -> None:
        attempts = Scripted().attempts()
        async for attempt in attempts:
            async with attempt:
                with pytest.raises(IllegalStateError, match="entered once"):
                    await attempt.__aenter__()
        with pytest.raises(IllegalStateError, match="entered once"):
            await attempts.__aenter__()
