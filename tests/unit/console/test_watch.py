"""The watch: one sample a tick for all, each looker's messages, and sources that fail or rest."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from aiokafkapy.broker.faults.control_calls import ControlCall
from aiokafkapy.console.watch import Watch
from aiokafkapy.errors import KafkaTimeoutError

from ..virtual_time import elapsed, on_virtual_time
from .sources import FakeSource, request_row


async def look(watch: Watch, view: str, count: int) -> list[Any]:
    found: list[Any] = []
    async with aclosing(watch.look(view)) as messages:
        async for message in messages:
            found.append(message)
            if len(found) == count:
                break
    return found


@on_virtual_time
async def test_the_first_message_has_the_history_and_the_next_the_newest_point() -> None:
    source = FakeSource()
    watch = Watch(source)
    await watch.start()
    for _ in range(5):
        source.total += 100
        await elapsed(1.0)
    watch.note_call(ControlCall.of("stop_node", {"node_id": 1}))
    first, second = await look(watch, "topics", 2)
    assert len(first["points"]) == 4
    assert [event["text"] for event in first["events"]] == ["stop_node(node_id=1)"]
    assert (len(second["points"]), second["events"]) == (1, [])
    assert first["points"][0]["records"] == 100.0
    assert first["view"]["rows"][0]["records_per_second"] == 100.0
    assert first["cluster"]["nodes"] == [{"node_id": 1, "address": "h:1", "is_running": True, "is_stalled": False}]
    await watch.stop()


@on_virtual_time
async def test_a_source_that_is_not_sampled_always_rests_while_nobody_looks() -> None:
    source = FakeSource(samples_always=False)
    watch = Watch(source)
    await watch.start()
    await elapsed(60.0)
    assert source.samples == 0
    await look(watch, "topics", 3)
    seen = source.samples
    assert seen in (3, 4)
    await elapsed(60.0)
    assert source.samples <= seen + 1
    await look(watch, "topics", 1)
    await watch.stop()


@on_virtual_time
async def test_lookers_share_the_samples() -> None:
    source = FakeSource()
    watch = Watch(source)
    await watch.start()
    await asyncio.gather(
        *(look(watch, view, 5) for view in ("topics", "groups", "transactions", "clients", "requests"))
    )
    assert source.samples <= 6
    await watch.stop()


@on_virtual_time
async def test_lookers_at_the_same_view_share_it() -> None:
    source = FakeSource()
    watch = Watch(source)
    await watch.start()
    found = await asyncio.gather(*(look(watch, "topics", 4) for _ in range(10)))
    for number in (1, 2, 3):
        assert len({id(messages[number]["view"]) for messages in found}) == 1
    assert len({id(messages[number]["view"]) for messages in found[:1] for number in range(4)}) == 4
    await watch.stop()


@on_virtual_time
async def test_a_source_that_fails_is_a_problem_until_it_answers_again() -> None:
    source = FakeSource()
    source.error = KafkaTimeoutError("no broker answers")
    watch = Watch(source)
    await watch.start()
    (message,) = await look(watch, "topics", 1)
    assert message["problem"] == "KafkaTimeoutError: no broker answers"
    assert message["view"] is None
    source.error = None
    *_, message = await look(watch, "topics", 2)
    assert (message["problem"], len(message["view"]["rows"])) == ("", 1)
    await watch.stop()


@on_virtual_time
async def test_a_view_of_a_missing_object_says_so_and_the_rest_goes_on() -> None:
    watch = Watch(FakeSource())
    await watch.start()
    (message,) = await look(watch, "topic:gone", 1)
    assert message["view"] == {"error": "UnknownTopicOrPartitionError: there is no topic 'gone'"}
    assert message["cluster"] is not None
    (message,) = await look(watch, "nonsense", 1)
    assert message["view"] == {}
    await watch.stop()


@on_virtual_time
async def test_requests_come_once_each() -> None:
    source = FakeSource()
    watch = Watch(source)
    await watch.start()
    log = source.request_log
    assert log is not None

    def note(number: int) -> None:
        row = request_row(number)
        log.note("FETCH", 1.0, is_error=False, now=float(number), row=lambda count: row)

    note(1)
    note(2)
    seen = []
    message: Any
    async with aclosing(watch.look("requests")) as messages:
        async for message in messages:
            seen.append([row["number"] for row in message["view"]["rows"]])
            if len(seen) == 3:
                break
            note(2 + len(seen))
    assert seen == [[1, 2], [3], [4]]
    await watch.stop()


@on_virtual_time
async def test_stopping_ends_every_look() -> None:
    watch = Watch(FakeSource())
    await watch.start()
    looking = asyncio.create_task(look(watch, "topics", 10**6))
    await elapsed(3.0)
    await watch.stop()
    assert len(await looking) >= 3


@on_virtual_time
async def test_ends_of_faults_are_distinguished_from_faults() -> None:
    watch = Watch(FakeSource())
    for control, arguments in (
        ("delay", {"api": "PRODUCE", "seconds": 1}),
        ("delay", {"api": "PRODUCE", "seconds": 0}),
        ("stall_connections", {"is_stalled": False}),
        ("start_node", {"node_id": 1}),
        ("clear", {}),
    ):
        watch.note_call(ControlCall.of(control, arguments))
    assert [event.is_end for event in watch.history.events] == [False, True, True, True, True]
