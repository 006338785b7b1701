"""Interceptors: a chain whose faults stay its own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import KafkaError
from aiokafkapy.producer.deliveries.delivery import Delivery, new_delivery
from aiokafkapy.producer.deliveries.produce_request_result import ProduceRequestResult
from aiokafkapy.producer.intake.interceptors import ProducerInterceptor, ProducerInterceptors
from aiokafkapy.producer.records import ProducerRecord


class Adding:
    def __init__(self, text: bytes) -> None:
        self.text = text
        self.seen: list[Any] = []
        self.is_closed = False

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return replace(record, value=record.value + self.text)

    def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
        self.seen.append((metadata, error, headers))

    def close(self) -> None:
        self.is_closed = True


class Raising:
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise LookupError("send")

    def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
        raise LookupError("acknowledgement")

    def close(self) -> None:
        raise LookupError("close")


class Forgetful:
    def on_send(self, record: ProducerRecord) -> None:
        return None


def test_each_gets_the_result_of_the_one_before_and_faults_are_told() -> None:
    faults: list[tuple[str, BaseException]] = []
    chain = ProducerInterceptors(
        [Adding(b"1"), Raising(), Forgetful(), Adding(b"2")], lambda *fault: faults.append(fault)
    )
    assert chain
    assert chain.on_send(ProducerRecord("t", b"0")).value == b"012"
    assert [(hook, type(error)) for hook, error in faults] == [
        ("Raising.on_send", LookupError),
        ("Forgetful.on_send", TypeError),
    ]


def test_all_are_told_the_outcome_and_closed() -> None:
    faults: list[Any] = []
    last = Adding(b"")
    chain = ProducerInterceptors([Raising(), Forgetful(), last], lambda *fault: faults.append(fault))
    error = KafkaError("no")
    chain.on_acknowledgement(None, error, [("a", b"b")])
    chain.close()
    assert last.seen == [(None, error, [("a", b"b")])]
    assert last.is_closed
    assert [hook for hook, _ in faults] == ["Raising.on_acknowledgement", "Raising.close"]
    assert isinstance(last, ProducerInterceptor)


def test_an_empty_chain_is_false() -> None:
    assert not ProducerInterceptors([], lambda *_: None)


def delivery() -> tuple[ProduceRequestResult, Delivery]:
    result = ProduceRequestResult(TopicPartition("t", 0))
    result.record_count = 1
    return result, new_delivery(result, 0, 5, -1, 1)


async def test_the_outcome_of_a_delivery_is_reported() -> None:
    watcher = Adding(b"")
    chain = ProducerInterceptors([watcher], lambda *_: None)
    result, delivered = delivery()
    chain.watch(delivered, None)
    result.succeed(7, -1)
    result, failed = delivery()
    chain.watch(failed, None)
    result.fail(KafkaError("no"))
    await asyncio.sleep(0)
    assert watcher.seen[0][0].offset == 7
    assert str(watcher.seen[1][1]) == "no"


async def test_every_outcome_of_a_record_that_waits_is_reported() -> None:
    watcher = Adding(b"")
    chain = ProducerInterceptors([watcher], lambda *_: None)
    waiting: list[asyncio.Future[Delivery]] = [asyncio.get_running_loop().create_future() for _ in range(3)]
    for record in waiting:
        chain.watch(record, [("h", None)])
    result, delivered = delivery()
    result.succeed(7, -1)
    waiting[0].set_result(delivered)
    waiting[1].set_exception(KafkaError("refused"))
    waiting[2].cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    told = {type(error).__name__ if error is not None else metadata.offset for metadata, error, _ in watcher.seen}
    assert told == {7, "KafkaError", "CancelledError"}


async def test_without_anybody_to_tell_nothing_is_watched() -> None:
    chain = ProducerInterceptors([Forgetful()], lambda *_: None)
    waiting: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
    chain.watch(waiting, None)
    waiting.cancel()


class Tracking:
    """Follows records; ``outcomes`` has the value of each with its outcome."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[Any, Any, Any]] = []

    def track(self, record: ProducerRecord) -> tuple[ProducerRecord, Any]:
        record = replace(record, value=record.value + b"!")
        if record.topic == "ignored":
            return record, None
        return record, lambda metadata, error: self.outcomes.append((record.value, metadata, error))


async def test_a_tracker_is_told_which_record_had_which_outcome() -> None:
    tracking = Tracking()
    chain = ProducerInterceptors([Adding(b"1"), tracking, Adding(b"2")], lambda *_: None)
    results = []
    for value in (b"a", b"b"):
        record, told = chain.begin(ProducerRecord("t", value))
        assert record.value == value + b"1!2"
        result, accepted = delivery()
        chain.watch(accepted, None, told)
        results.append(result)
    results[1].fail(KafkaError("no"))
    results[0].succeed(5, -1)
    for _ in range(3):
        await asyncio.sleep(0)
    assert [(value, metadata and metadata.offset, str(failed)) for value, metadata, failed in tracking.outcomes] == [
        (b"b1!", None, "no"),
        (b"a1!", 5, "None"),
    ]


async def test_a_tracker_may_follow_no_record_and_its_faults_are_told() -> None:
    class Failing:
        def track(self, record: ProducerRecord) -> Any:
            return record, self.told

        def told(self, metadata: Any, error: Any) -> None:
            raise LookupError("told")

    class Wrong:
        def track(self, record: ProducerRecord) -> Any:
            return record

    faults: list[tuple[str, BaseException]] = []
    chain = ProducerInterceptors([Tracking(), Failing(), Wrong()], lambda *fault: faults.append(fault))
    record, told = chain.begin(ProducerRecord("ignored", b"a"))
    assert record.value == b"a!"
    assert len(told) == 1
    chain.on_acknowledgement(None, KafkaError("no"), None, told)
    assert [(hook, type(error)) for hook, error in faults] == [
        ("Wrong.track", TypeError),
        ("Failing.track", LookupError),
    ]
