"""Deliveries: awaiting a record's outcome, and the callbacks that are told of it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import traceback
import tracemalloc
import weakref
from typing import Any

import pytest

from aiokafkapy import compiled
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import KafkaError, NotLeaderOrFollowerError, WrongEventLoopError
from aiokafkapy.producer.deliveries.delivery import Delivery, new_delivery
from aiokafkapy.producer.deliveries.produce_request_result import FIRST_PRUNE, Move, ProduceRequestResult
from aiokafkapy.producer.records import RecordMetadata

from ..accumulator_harness import T0


def result_of(count: int = 1) -> ProduceRequestResult:
    result = ProduceRequestResult(T0)
    result.record_count = count
    return result


def pending(count: int = 1) -> tuple[ProduceRequestResult, list[Delivery]]:
    """A batch without an answer, and its deliveries: timestamp 100 + index, a key of one byte, no value."""
    result = result_of(count)
    return result, [new_delivery(result, index, 100 + index, 1, -1) for index in range(count)]


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class TestLooking:
    def test_there_is_nothing_to_see_before_the_answer(self) -> None:
        _, (delivery,) = pending()
        assert not delivery.done()
        assert delivery.topic_partition == T0
        assert delivery.timestamp_ms == 100
        with pytest.raises(asyncio.InvalidStateError, match="await it"):
            delivery.result()
        with pytest.raises(asyncio.InvalidStateError, match="await it"):
            delivery.exception()
        assert repr(delivery).endswith("pending>")

    def test_each_record_has_its_own_place(self) -> None:
        result, deliveries = pending(3)
        result.succeed(40, -1)
        assert [delivery.result() for delivery in deliveries] == [
            RecordMetadata("t", 0, 40 + index, 100 + index, 1, -1) for index in range(3)
        ]
        assert type(deliveries[0].result()) is RecordMetadata
        assert all(delivery.done() and delivery.exception() is None for delivery in deliveries)
        assert repr(deliveries[0]).endswith("delivered>")

    def test_log_append_time_wins_over_the_records_own(self) -> None:
        result, deliveries = pending(2)
        result.succeed(40, 777)
        assert [delivery.result().timestamp_ms for delivery in deliveries] == [777, 777]
        assert deliveries[0].timestamp_ms == 100

    def test_an_offset_that_was_not_returned_is_minus_one_for_all(self) -> None:
        result, deliveries = pending(2)
        result.succeed(-1, -1)
        assert [delivery.result().offset for delivery in deliveries] == [-1, -1]

    def test_an_error_may_be_each_records_own(self) -> None:
        result, deliveries = pending(2)
        result.fail(lambda index: KafkaError(f"record {index}"))
        assert [str(delivery.exception()) for delivery in deliveries] == ["record 0", "record 1"]
        assert repr(deliveries[0]).endswith("failed>")

    def test_it_cannot_be_taken_back(self) -> None:
        result, (delivery,) = pending()
        assert delivery.cancel() is False
        assert delivery.cancelled() is False
        result.succeed(1, -1)
        assert delivery.result().offset == 1


class TestErrors:
    def test_every_look_raises_a_copy_whose_traceback_is_its_own(self) -> None:
        result, (delivery,) = pending()
        cause = OSError("cut")
        error = NotLeaderOrFollowerError("moved", topic="t", partition=0)
        error.__cause__ = cause
        result.fail(error)
        lengths = set()
        for _ in range(5):
            with pytest.raises(NotLeaderOrFollowerError, match="moved") as caught:
                delivery.result()
            assert caught.value is not error
            assert repr(caught.value.__cause__) == repr(cause)
            assert (caught.value.topic, caught.value.partition) == ("t", 0)
            lengths.add(len(traceback.extract_tb(caught.value.__traceback__)))
        assert len(lengths) == 1
        assert error.__traceback__ is None
        assert delivery.exception() is not delivery.exception()

    async def test_waiters_do_not_share_a_traceback(self) -> None:
        result, (delivery,) = pending()

        async def wait() -> int:
            try:
                await delivery
            except KafkaError as error:
                return len(traceback.extract_tb(error.__traceback__))
            return -1

        tasks = [asyncio.create_task(wait()) for _ in range(10)]
        await turns()
        result.fail(KafkaError("no"))
        assert len(set(await asyncio.gather(*tasks))) == 1

    def test_errors_that_are_not_ours_are_copied_too(self) -> None:
        result, (delivery,) = pending()
        error = ValueError("no", 3)
        result.fail(error)
        seen = delivery.exception()
        assert type(seen) is ValueError
        assert seen is not error
        assert seen.args == ("no", 3)


class TestAwaiting:
    async def test_before_and_after_the_answer(self) -> None:
        result, (delivery,) = pending()
        task = asyncio.create_task(_await(delivery))
        await turns()
        assert not task.done()
        result.succeed(7, -1)
        assert (await task).offset == 7
        assert (await delivery).offset == 7

    async def test_an_error_is_raised_before_and_after(self) -> None:
        result, (delivery,) = pending()
        task = asyncio.create_task(_await(delivery))
        await turns()
        result.fail(KafkaError("no"))
        for awaitable in (task, _await(delivery)):
            with pytest.raises(KafkaError, match="no"):
                await awaitable

    async def test_every_tool_of_asyncio_takes_one(self) -> None:
        result, deliveries = pending(6)
        loop = asyncio.get_running_loop()
        gathered = asyncio.ensure_future(asyncio.gather(*deliveries))
        shielded = asyncio.shield(deliveries[0])
        ensured = asyncio.ensure_future(deliveries[1])
        waited = asyncio.create_task(asyncio.wait(deliveries))  # type: ignore[type-var]
        limited = asyncio.create_task(asyncio.wait_for(deliveries[2], 60))
        completed = asyncio.create_task(_as_completed(deliveries))
        await turns()
        loop.call_soon(result.succeed, 10, -1)
        assert [metadata.offset for metadata in await gathered] == list(range(10, 16))
        assert (await shielded).offset == 10
        assert (await ensured).offset == 11
        assert (await limited).offset == 12
        done, not_done = await waited
        assert (done, not_done) == (set(deliveries), set())
        assert sorted(await completed) == list(range(10, 16))

    async def test_every_tool_of_asyncio_takes_one_that_is_done(self) -> None:
        result, deliveries = pending(2)
        result.succeed(10, -1)
        assert [metadata.offset for metadata in await asyncio.gather(*deliveries)] == [10, 11]
        assert (await asyncio.wait_for(deliveries[0], 60)).offset == 10
        assert (await asyncio.shield(deliveries[0])).offset == 10
        done, _ = await asyncio.wait(deliveries, return_when=asyncio.FIRST_EXCEPTION)  # type: ignore[type-var]
        assert done == set(deliveries)

    async def test_a_time_out_of_wait_for_leaves_the_record_on_its_way(self) -> None:
        result, (delivery,) = pending()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(delivery, 0)
        done, not_done = await asyncio.wait([delivery], timeout=0)  # type: ignore[type-var]
        assert (done, not_done) == (set(), {delivery})
        result.succeed(3, -1)
        assert (await delivery).offset == 3

    async def test_cancelling_one_waiter_harms_no_other(self) -> None:
        result, (delivery,) = pending()
        tasks = [asyncio.create_task(_await(delivery)) for _ in range(3)]
        await turns()
        tasks[1].cancel()
        await turns()
        assert tasks[1].cancelled()
        assert not delivery.done()
        result.succeed(3, -1)
        assert (await tasks[0]).offset == (await tasks[2]).offset == 3

    async def test_a_waiter_that_left_is_not_told_of_an_error(self, no_loop_errors: list[Any]) -> None:
        result, (delivery,) = pending()
        task = asyncio.create_task(_await(delivery))
        await turns()
        task.cancel()
        result.fail(KafkaError("no"))  # while the cancelled future has not been looked at
        await turns()
        del task, delivery, result
        gc.collect()
        assert no_loop_errors == []

    async def test_waiters_that_gave_up_do_not_pile_up(self) -> None:
        result, (delivery,) = pending()
        for _ in range(10 * FIRST_PRUNE):
            await asyncio.wait([asyncio.ensure_future(_briefly(delivery))])
        alive = asyncio.create_task(_await(delivery))
        await turns()
        gc.collect()
        futures = [item for item in gc.get_objects() if isinstance(item, asyncio.Future) and item.cancelled()]
        assert len(futures) < 4 * FIRST_PRUNE
        result.succeed(1, -1)
        assert (await alive).offset == 1


class TestCallbacks:
    async def test_they_are_called_soon_in_order_with_the_delivery(self) -> None:
        result, (delivery,) = pending()
        calls: list[Any] = []
        delivery.add_done_callback(lambda it: calls.append((1, it)))
        delivery.add_done_callback(lambda it: calls.append((2, it)))
        result.succeed(1, -1)
        assert calls == []
        await turns(1)
        assert calls == [(1, delivery), (2, delivery)]

    async def test_a_callback_that_comes_late_is_called_soon_too(self) -> None:
        result, (delivery,) = pending()
        result.fail(KafkaError("no"))
        calls: list[Any] = []
        delivery.add_done_callback(calls.append)
        assert calls == []
        await turns(1)
        assert calls == [delivery]

    async def test_they_run_in_the_context_they_are_given(self) -> None:
        result, (delivery,) = pending()
        variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")
        context = contextvars.copy_context()
        context.run(variable.set, "mine")
        seen: list[str] = []
        delivery.add_done_callback(lambda _: seen.append(variable.get()), context=context)
        result.succeed(1, -1)
        await turns(1)
        assert seen == ["mine"]

    @pytest.mark.parametrize("is_late", [True, False])
    async def test_they_run_in_a_copy_of_the_callers_context(self, is_late: bool) -> None:
        """They do not run in the context of the callback that brings the answer."""
        variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="network's")
        seen: list[str] = []
        result, (delivery,) = pending()
        if is_late:
            result.succeed(1, -1)
        token = variable.set("caller's")
        delivery.add_done_callback(lambda _: seen.append(variable.get()))
        variable.reset(token)
        if not is_late:
            result.succeed(1, -1)
        await turns(1)
        assert seen == ["caller's"]

    async def test_they_can_be_removed(self) -> None:
        result, (first, second) = pending(2)
        calls: list[Any] = []
        for delivery in (first, first, second):
            delivery.add_done_callback(calls.append)
        assert first.remove_done_callback(calls.append) == 2
        assert first.remove_done_callback(calls.append) == 0
        result.succeed(1, -1)
        await turns(1)
        assert calls == [second]
        assert second.remove_done_callback(calls.append) == 0

    def test_a_loop_is_needed(self) -> None:
        _, (delivery,) = pending()
        with pytest.raises(RuntimeError, match="no running event loop"):
            delivery.add_done_callback(print)

    def test_a_delivery_without_an_outcome_is_awaited_on_its_own_loop_only(self) -> None:
        async def begin() -> tuple[ProduceRequestResult, list[Delivery]]:
            return pending()

        async def add_callback() -> None:
            delivery.add_done_callback(print)

        own, other = asyncio.new_event_loop(), asyncio.new_event_loop()
        result, (delivery,) = own.run_until_complete(begin())
        for refused in (_await, lambda _: add_callback()):
            with pytest.raises(WrongEventLoopError, match="t-0 is awaited on another event loop"):
                other.run_until_complete(refused(delivery))
        waiting = own.create_task(_await(delivery))
        own.run_until_complete(turns())
        result.succeed(5, -1)
        own.run_until_complete(waiting)
        other.run_until_complete(_await(delivery))
        own.close()
        other.close()

    def test_waiters_of_a_loop_that_is_closed_are_passed_over(self) -> None:
        result, (delivery,) = pending()
        loop = asyncio.new_event_loop()

        async def start() -> None:
            delivery.add_done_callback(print)
            task = loop.create_task(_await(delivery))
            await turns()
            assert not task.done()
            waiting.append(task)

        waiting: list[asyncio.Task[Any]] = []
        loop.run_until_complete(start())
        waiting[0]._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
        result.succeed(5, -1)
        assert delivery.result().offset == 5


class TestMoving:
    def test_a_record_is_followed_to_where_it_went(self) -> None:
        result, deliveries = pending(5)
        first, second = result_of(3), result_of(2)
        result.move([Move(0, first, 0), Move(3, second, 0)])
        assert not any(delivery.done() for delivery in deliveries)
        second.succeed(100, -1)
        done = [delivery.done() for delivery in deliveries]
        assert (done, result.is_settled) == ([False, False, False, True, True], False)
        first.fail(KafkaError("no"))
        assert result.is_settled
        assert [delivery.result().offset for delivery in deliveries[3:]] == [100, 101]
        assert str(deliveries[2].exception()) == "no"

    def test_a_record_is_followed_to_where_it_went_from_there(self) -> None:
        result, deliveries = pending(64)
        level, leaves = [(result, 64)], []
        while level:
            source, count = level.pop()
            if count == 1:
                leaves.append(source)
                continue
            halves = result_of(count // 2), result_of(count // 2)
            source.move([Move(0, halves[0], 0), Move(count // 2, halves[1], 0)])
            level += [(half, count // 2) for half in reversed(halves)]
        for number, leaf in enumerate(leaves):
            leaf.succeed(number, -1)
        assert [delivery.result().offset for delivery in deliveries] == list(range(64))

    async def test_waiters_and_callbacks_go_along(self) -> None:
        result, deliveries = pending(4)
        tasks = [asyncio.create_task(_await(delivery)) for delivery in deliveries]
        calls: list[Any] = []
        deliveries[3].add_done_callback(calls.append)
        await turns()
        done, rest = result_of(1), result_of(3)
        done.succeed(50, -1)
        result.move([Move(0, rest, 0), Move(1, done, 0), Move(2, rest, 1)])
        await turns()
        assert [task.done() for task in tasks] == [False, True, False, False]
        assert calls == []
        assert deliveries[3].remove_done_callback(calls.append) == 1
        deliveries[3].add_done_callback(calls.append)
        rest.succeed(60, -1)
        assert [(await task).offset for task in tasks] == [60, 50, 61, 62]
        assert calls == [deliveries[3]]


class TestMemory:
    def test_a_hundred_thousand_pending_deliveries_are_freed_when_they_are_let_go(self) -> None:
        result = result_of(100_000)
        gone = weakref.ref(result)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            deliveries = [new_delivery(result, index, 1, -1, 100) for index in range(100_000)]
            assert not deliveries[-1].done()
            result.succeed(0, -1)
            assert deliveries[-1].result().offset == 99_999
            deliveries.clear()
            gc.collect()
            # Up to 4096 are kept for the next ones.
            assert tracemalloc.get_traced_memory()[0] - before < 1_000_000
        finally:
            tracemalloc.stop()
        del result
        gc.collect()
        assert gone() is None

    async def test_a_task_that_waits_and_holds_the_delivery_is_freed_once_there_is_an_answer(self) -> None:
        result, (delivery,) = pending()
        task = asyncio.create_task(_await(delivery))
        await turns()
        gone = weakref.ref(result), weakref.ref(task)
        result.succeed(0, -1)
        await turns()
        assert task.done()
        del task, delivery, result
        gc.collect()
        assert [reference() for reference in gone] == [None, None]

    async def test_abandoning_lets_go_of_waiting_records(self) -> None:
        result, (delivery,) = pending()
        future = asyncio.ensure_future(delivery)
        delivery.add_done_callback(print)
        await turns()
        result.abandon()
        assert delivery.remove_done_callback(print) == 0
        gone = weakref.ref(result)
        future.cancel()
        await turns()
        del future, delivery, result
        gc.collect()
        assert gone() is None

    async def test_failed_batches_leave_nothing_though_frames_in_tracebacks_hold_deliveries(
        self,
    ) -> None:
        """A traceback on an error that the result keeps would make a cycle that the collector cannot see."""
        gone: list[weakref.ref[Any]] = []
        for _ in range(100):
            results = [result_of(1) for _ in range(100)]
            deliveries = [new_delivery(result, 0, 1, -1, 100) for result in results]
            tasks = [asyncio.create_task(_keep_the_error(delivery)) for delivery in deliveries]
            await turns()
            for result in results:
                result.fail(NotLeaderOrFollowerError("no"))
            await turns()
            assert all([type(await task) is NotLeaderOrFollowerError for task in tasks])
            assert all(type(_error_of(delivery)) is NotLeaderOrFollowerError for delivery in deliveries)
            gone += [weakref.ref(item) for item in (*results, *tasks)]
            del results, deliveries, tasks, result
        gc.collect()
        assert [reference() for reference in gone if reference() is not None] == []


@pytest.fixture
async def no_loop_errors() -> list[Any]:
    """The calls of the loop's exception handler."""
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    return errors


def test_a_topic_partition_has_the_fields_that_it_shows() -> None:
    delivery = new_delivery(ProduceRequestResult(TopicPartition("other", 3)), 0, 1, -1, -1)
    assert delivery.topic_partition == TopicPartition("other", 3)


async def _await(delivery: Delivery) -> RecordMetadata:
    return await delivery


async def _briefly(delivery: Delivery) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_soon(task.cancel)
    await delivery


async def _keep_the_error(delivery: Delivery) -> BaseException | None:
    kept = None
    try:
        await delivery
    except KafkaError as error:
        kept = error  # whose traceback holds this frame, which holds the delivery
    return kept


def _error_of(delivery: Delivery) -> BaseException | None:
    kept = None
    try:
        delivery.result()
    except KafkaError as error:
        kept = error
    return kept


async def _as_completed(deliveries: list[Delivery]) -> list[int]:
    return [(await completed).offset for completed in asyncio.as_completed(deliveries)]


@pytest.mark.skipif(not compiled, reason="interpreted objects are always tracked")
def test_the_cyclic_collector_does_not_see_compiled_deliveries_and_results() -> None:
    """Cython drops ``no_gc`` and ``freelist`` silently when they stand in the .pxd."""
    result, deliveries = pending(3)
    assert not any(gc.is_tracked(item) for item in (result, *deliveries))
