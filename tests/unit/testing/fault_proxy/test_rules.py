"""Faults of requests: functions, delays, drops, damaged bytes, errors; and the calls that forget them."""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_response, encode_request
from aiokafkapy.protocol.messages import build_request
from aiokafkapy.testing import FaultProxy
from aiokafkapy.testing.fault_proxy import Answer, Hold, Request

from .harness import METADATA_VERSION, Connect, Server, framed, is_answered, metadata_of, plain_request, turns


async def test_a_function_decides_on_requests(broker: DevBroker, proxy: FaultProxy, connect: Connect) -> None:
    asked: list[Request] = []

    def decide(request: Request) -> Answer | None:
        asked.append(request)
        if len(asked) == 1:
            return None
        return Answer(forward=False, replace=lambda request, nothing: nothing + request.respond(controller_id=77))

    proxy.on_request(ApiKey.METADATA, decide)
    client = await connect(proxy)
    assert (await metadata_of(client)).controller_id == 1
    assert (await metadata_of(client)).controller_id == 77
    assert len(asked) == 2
    assert broker.controls.request_count(ApiKey.METADATA) == 1
    proxy.on_request(ApiKey.METADATA, None)
    assert (await metadata_of(client)).controller_id == 1


async def test_a_function_may_change_the_request(server: Server, plain: FaultProxy, connect: Connect) -> None:
    def change(request: Request) -> None:
        request.frame += b"!"

    plain.on_request(None, change)
    assert await (await connect(plain)).echoed(b"hello") == b"hello!"


async def test_a_function_that_fails_ends_the_connection_and_is_told(plain: FaultProxy, connect: Connect) -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

    def fail(_: Request) -> None:
        raise ArithmeticError("wrong")

    plain.on_request(999, fail)
    client = await connect(plain)
    client.writer.write(plain_request(1, b""))
    await client.is_reset()
    assert [type(error) for error in told] == [ArithmeticError]


async def test_answers_keep_the_order_of_requests_with_any_faults(plain: FaultProxy, connect: Connect) -> None:
    hold = Hold()

    def decide(request: Request) -> Answer | None:
        if request.correlation_id == 1:
            return Answer(hold=hold)
        if request.correlation_id == 2:
            return Answer(forward=False, replace=lambda *_: framed(b"\0\0\0\2made up"))
        return Answer(delay=0.01) if request.correlation_id == 3 else None

    plain.on_request(999, decide)
    client = await connect(plain)
    for n in range(1, 6):
        client.writer.write(plain_request(n, b"real"))
    await plain.until(lambda: plain.answers_received == 4)
    await turns()
    assert plain.answers_sent == 0
    hold.release()
    answers = [await client.frame() for _ in range(5)]
    assert [int.from_bytes(answer[:4], "big") for answer in answers] == [1, 2, 3, 4, 5]
    assert [answer[4:] for answer in answers] == [b"real", b"made up", b"real", b"real", b"real"]


async def test_delayed_answers_wait_side_by_side(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    plain.delay(999, 0.2)
    started = time.monotonic()
    for n in range(100):
        client.writer.write(plain_request(n, b""))
    for _ in range(100):
        await client.frame()
    assert 0.15 < time.monotonic() - started < 19, "one after the other would be 20 s"
    plain.delay(999, 3_600)
    client.writer.write(plain_request(1, b""))
    await plain.until(lambda: plain.answers_received == 101)
    await turns()
    assert plain.answers_sent == 100
    plain.delay(999, 0)
    assert await (await connect(plain)).echoed(b"x") == b"x"


async def test_held_answers_wait_until_they_are_released(
    broker: DevBroker, proxy: FaultProxy, connect: Connect
) -> None:
    client = await connect(proxy)
    hold = proxy.hold(ApiKey.METADATA)
    client.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    await proxy.until(lambda: proxy.answers_received == 1)
    assert broker.controls.request_count(ApiKey.METADATA) == 1
    assert proxy.answers_sent == 0
    hold.release()
    await client.frame()
    await metadata_of(client)


@pytest.mark.parametrize("after", [True, False])
async def test_drop_next_ends_the_connection_instead_of_answering(
    broker: DevBroker, proxy: FaultProxy, connect: Connect, after: bool
) -> None:
    proxy.drop_next(ApiKey.METADATA, after=after, times=2)
    for _ in range(2):
        assert not await is_answered(await connect(proxy))
    assert await is_answered(await connect(proxy))
    assert broker.controls.request_count(ApiKey.METADATA) == (3 if after else 1)


async def test_a_fault_of_another_api_is_not_used_up(proxy: FaultProxy, connect: Connect) -> None:
    proxy.drop_next(ApiKey.FIND_COORDINATOR)
    client = await connect(proxy)
    await metadata_of(client)
    client.send(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=["g"])
    assert await client.rest() == b""


@pytest.mark.parametrize("after", [True, False])
async def test_swallow_next_leaves_its_connection_half_open_and_no_other(
    broker: DevBroker, proxy: FaultProxy, connect: Connect, after: bool
) -> None:
    silent, other = await connect(proxy), await connect(proxy)
    await metadata_of(silent)
    proxy.swallow_next(ApiKey.METADATA, after=after)
    silent.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    await proxy.seen(ApiKey.METADATA, 2)
    silent.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    if after:
        await proxy.until(lambda: proxy.answers_received == 2)
    silent.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    await metadata_of(other)
    await turns()
    assert proxy.request_count(ApiKey.METADATA) == 3
    assert broker.controls.request_count(ApiKey.METADATA) == (3 if after else 2)
    assert proxy.connection_count() == 2
    proxy.resume()
    assert await silent.is_reset()
    await metadata_of(other)


async def test_truncate_lets_the_start_of_an_answer_arrive(proxy: FaultProxy, connect: Connect) -> None:
    client = await connect(proxy)
    proxy.truncate(ApiKey.METADATA, after_bytes=7)
    sent = client.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    got = await client.rest()
    assert len(got) == 7
    assert struct.pack(">i", sent).startswith(got[4:])
    assert await is_answered(await connect(proxy))


async def test_corrupt_garbles_answers(proxy: FaultProxy, connect: Connect) -> None:
    client = await connect(proxy)
    proxy.corrupt(ApiKey.METADATA)
    sent = client.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
    frame = await client.frame()
    assert int.from_bytes(frame[:4], "big") == sent
    with pytest.raises(errors.MalformedFrameError):
        decode_response(ApiKey.METADATA, METADATA_VERSION, frame)
    await metadata_of(client)


async def test_corrupt_garbles_requests(server: Server, plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    plain.corrupt(999, request=True)
    assert await client.echoed(b"\0\xff\x10") == b"\xff\0\xef"
    assert await client.echoed(b"\0\xff\x10") == b"\0\xff\x10"


async def test_faults_are_used_in_the_order_they_were_given(proxy: FaultProxy, connect: Connect) -> None:
    proxy.truncate(ApiKey.METADATA, after_bytes=5)
    proxy.drop_next(ApiKey.METADATA)
    got = []
    for _ in range(2):
        client = await connect(proxy)
        client.send(ApiKey.METADATA, METADATA_VERSION, topics=None)
        got.append(len(await client.rest()))
    assert got == [5, 0]
    with pytest.raises(ValueError, match="times=0"):
        proxy.drop_next(ApiKey.METADATA, times=0)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
async def test_an_invalid_delay_is_refused_and_changes_nothing(
    proxy: FaultProxy, connect: Connect, seconds: float
) -> None:
    with pytest.raises(ValueError, match=f"seconds={seconds}: write 0 or more"):
        proxy.delay(ApiKey.METADATA, seconds)
    with pytest.raises(ValueError, match=f"delay={seconds}: write 0 or more"):
        proxy.answer_next(ApiKey.METADATA, Answer(delay=seconds))
    await metadata_of(await connect(proxy))


def test_fewer_bytes_than_none_are_refused(proxy: FaultProxy) -> None:
    with pytest.raises(ValueError, match="after_bytes=-1: write 0 or more"):
        proxy.truncate(ApiKey.METADATA, after_bytes=-1)


async def test_produce_without_acks_is_not_expected_to_be_answered(
    broker: DevBroker, proxy: FaultProxy, connect: Connect
) -> None:
    proxy.truncate(ApiKey.METADATA, after_bytes=10**6)
    async with KafkaProducer(proxy.bootstrap_servers, acks=0, enable_idempotence=False) as producer:
        for n in range(5):
            await producer.send("t", b"%d" % n, partition=0)
        # A send with acks=0 is done when it is written: the kernel may not have given it to the proxy yet.
        await proxy.seen(ApiKey.PRODUCE, 5)
        proxy.drop_next(ApiKey.PRODUCE)
        await producer.send("t", b"written, and the connection ends", partition=0)
        await proxy.seen(ApiKey.PRODUCE, 6)
    produced = proxy.requests_of(ApiKey.PRODUCE)
    assert not any(request.expects_answer for request in produced)
    assert {request.version for request in produced} == {13}
    client = await connect(proxy)
    for version in range(3, 14):
        for transactional_id in (None, "tx", "\0\0"):
            for acks in (0, 1, -1):
                body = build_request(ApiKey.PRODUCE, version, transactional_id=transactional_id, acks=acks)
                request = Request.read(1, encode_request(body, 1, "x")[4:], 1)
                assert request.expects_answer == (acks != 0)
    await metadata_of(client)


@pytest.mark.parametrize("after_append", [False, True])
async def test_fail_produce_answers_with_an_error(broker: DevBroker, proxy: FaultProxy, after_append: bool) -> None:
    async with KafkaProducer(proxy.bootstrap_servers, retries=0, enable_idempotence=False) as producer:
        await producer.send("t", b"first", partition=0)
        proxy.fail_produce(errors.InvalidRecordError, after_append=after_append, error_message="so it is")
        with pytest.raises(errors.InvalidRecordError, match="so it is"):
            await producer.send("t", b"failed", partition=0)
        await producer.send("t", b"last", partition=0)
    wanted = [b"first", b"failed", b"last"] if after_append else [b"first", b"last"]
    assert [record.value for record in broker.records("t", 0)] == wanted
    with pytest.raises(ValueError, match="no code"):
        proxy.fail_produce(errors.KafkaTimeoutError)


async def test_clear_forgets_everything(plain: FaultProxy, connect: Connect) -> None:
    client = await connect(plain)
    hold = plain.hold(999, times=1)
    plain.drop_next(999, times=None)
    plain.delay(None, 3_600)
    client.writer.write(plain_request(1, b"held"))
    await plain.until(lambda: plain.answers_received == 1)
    plain.delay(None, 0)
    plain.stall()
    plain.clear()
    assert hold.is_released
    assert plain.requests == []
    assert await (await connect(plain)).echoed(b"x") == b"x"


async def test_clear_of_one_api_leaves_the_others(plain: FaultProxy, connect: Connect) -> None:
    plain.drop_next(999, times=None)
    plain.on_request(998, lambda _: Answer(lose=True, cut=True))
    plain.clear(999)
    client = await connect(plain)
    assert await client.echoed(b"x") == b"x"
    client.writer.write(plain_request(1, b"", 998))
    assert await client.rest() == b""
