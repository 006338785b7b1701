from __future__ import annotations

import json
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.testing import MockProducer, assert_produced


@pytest.fixture(params=["mock", "broker"])
async def produced(request: pytest.FixtureRequest) -> Any:
    """Three records, in a mock producer and in a broker."""

    async def send(producer: KafkaProducer) -> None:
        await producer.send("orders", b'{"id": 1}', key=b"ann", headers={"trace": b"a", "kind": b"new"})
        await producer.send("orders", b'{"id": 2}', key=b"bob")
        await producer.send("orders", None, key=b"ann")

    if request.param == "mock":
        async with MockProducer() as producer:
            await send(producer)
            yield producer
    else:
        async with DevBroker() as broker:
            async with KafkaProducer(broker.bootstrap_servers) as real:
                await send(real)
            yield broker


def test_produced_records_are_found(produced: Any) -> None:
    assert len(assert_produced(produced, "orders")) == 3
    (found,) = assert_produced(produced, "orders", value=b'{"id": 1}', key=b"ann", headers={"kind": b"new"})
    assert found.headers == (("trace", b"a"), ("kind", b"new"))
    assert assert_produced(produced, "orders", value=None)[0].key == b"ann", "a tombstone"
    assert_produced(produced, "orders", key=b"ann", count=2)
    assert_produced(produced, "orders", value=lambda value: value and json.loads(value)["id"] == 2, count=1)
    assert_produced(produced, "orders", headers=[("trace", lambda value: value == b"a")])
    assert assert_produced(produced, "orders", value=b"never", count=0) == []
    assert assert_produced(produced, "no-such-topic", count=0) == []
    with pytest.raises(ValueError, match="count=-1: write 0 or more, or None"):
        assert_produced(produced, "orders", count=-1)


def test_a_record_that_was_not_produced_is_reported_with_the_nearest_one(produced: Any) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_produced(produced, "orders", value=b'{"id": 22}', key=b"bob", headers={"kind": b"new"})
    first, nearest, *shown = str(caught.value).splitlines()
    assert first == (
        "orders: expected a record with value b'{\"id\": 22}', key b'bob', header 'kind' b'new'; of 3 records 0 match"
    )
    assert nearest == "the nearest:"
    # Two records differ in two parts each; the nearest is the one whose value and key are more alike.
    assert "key b'bob', value b'{\"id\": 2}'" in shown[0]
    assert "value is b'{\"id\": 2}', not b'{\"id\": 22}'" in shown[1]
    assert shown[2].strip() == "header 'kind' is missing, not b'new'"


def test_too_many_and_too_few_are_reported(produced: Any) -> None:
    with pytest.raises(AssertionError, match=r"(?s)1 times a record with key b'ann'; of 3 records 2 match.*at "):
        assert_produced(produced, "orders", key=b"ann", count=1)
    with pytest.raises(AssertionError, match=r"no-such-topic: expected a record; of 0 records 0 match$"):
        assert_produced(produced, "no-such-topic")
    with pytest.raises(AssertionError, match="orders-0: expected a record with key b'nobody'"):
        assert_produced(produced, "orders", key=b"nobody", partition=0)


def test_a_text_that_is_not_in_kafka_s_form_is_refused(produced: Any) -> None:
    with pytest.raises(TypeError, match="value is a str, not bytes"):
        assert_produced(produced, "orders", value="text")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="header 'kind' is a int"):
        assert_produced(produced, "orders", headers={"kind": 5})  # type: ignore[arg-type]


async def test_long_contents_are_cut_and_records_without_an_outcome_count() -> None:
    async with MockProducer(auto_complete=False) as producer:
        producer.send_nowait("t", bytes(100_000))
        with pytest.raises(AssertionError, match="not delivered") as caught:
            assert_produced(producer, "t", value=b"x" * 100_000)
        assert len(str(caught.value)) < 2_000
        assert_produced(producer, "t", value=bytes(100_000))
