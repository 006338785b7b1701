from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, NoReturn, Unpack

import pytest

from aiokafkapy.client.network_client_utils import (
    RequestOptions,
    WaitingClient,
    await_ready,
    next_refusal,
    send_and_receive,
    unless_refused,
)
from aiokafkapy.client.nodes.client_request import ClientRequest, ClientResponse
from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.common import Node
from aiokafkapy.errors import AuthenticationFailedError, DisconnectedError, KafkaTimeoutError, NotControllerError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import Struct
from aiokafkapy.protocol.messages import build_request
from tests.unit.client.fakes import ClientUnderTest, FakeCluster, FakeLoop
from tests.unit.metadata_options import METADATA_OPTIONS

NODE = Node(1, "::1", 1)


class Client:
    def __init__(self) -> None:
        self.is_active = True
        self.is_node_ready = False
        self.nodes: Any = SimpleNamespace(
            is_preparing_connection=lambda node_id: True, connection_failed=lambda node: False
        )
        self.least_loaded: Node | None = None
        self.change = asyncio.Event()
        self.sent: list[ClientRequest] = []
        self.future: asyncio.Future[ClientResponse] = asyncio.get_running_loop().create_future()

    def ready(self, node: Node, now: float) -> bool:
        return self.is_node_ready

    def least_loaded_node(self, now: float) -> Node | None:
        return self.least_loaded

    def send(self, request: ClientRequest, now: float) -> asyncio.Future[ClientResponse]:
        self.sent.append(request)
        return self.future

    async def wait_for_change(self) -> None:
        await self.change.wait()
        self.change.clear()


@pytest.fixture
async def client() -> Client:
    return Client()


def ask(
    client: WaitingClient, node: Node | None = None, timeout: float = 60.0, **options: Unpack[RequestOptions]
) -> asyncio.Task[Struct]:
    build = partial(build_request, ApiKey.METADATA)
    return asyncio.ensure_future(
        send_and_receive(
            client,
            ApiKey.METADATA,
            build,
            node=node,
            timeout=timeout,
            clock=lambda: 0.0,
            describe_failure=lambda: "the cause",
            options=options,
        )
    )


async def test_a_wait_looks_again_at_each_change_until_a_node_is_ready(client: Client) -> None:
    task = asyncio.ensure_future(await_ready(client, None, lambda: 0.0))
    for change in ({}, {"least_loaded": NODE}, {"is_node_ready": True}):
        await FakeLoop().settle()
        assert not task.done()
        vars(client).update(change)
        client.change.set()
    assert await task == NODE


async def test_a_closed_client_ends_the_wait(client: Client) -> None:
    task = asyncio.ensure_future(await_ready(client, NODE, lambda: 0.0))
    await FakeLoop().settle()
    client.is_active = False
    client.change.set()
    with pytest.raises(DisconnectedError):
        await task


@pytest.mark.parametrize("reconnect_backoff_ms", [0, 50])
async def test_a_node_that_cannot_be_connected_to_is_given_up(
    cluster: FakeCluster, make_client: Callable[..., ClientUnderTest], reconnect_backoff_ms: int
) -> None:
    """A call waited for the whole time-out, while metadata had the next controller already."""
    backoff = {"reconnect_backoff_ms": reconnect_backoff_ms, "reconnect_backoff_max_ms": reconnect_backoff_ms}
    under_test = await make_client(**backoff).started()
    cluster[2].behaviour = "refuse"
    task = ask(under_test.client, under_test.node(2))
    await under_test.loop.settle()
    with pytest.raises(DisconnectedError, match=r"no connection to node 2: cannot connect to two:2: .*refused"):
        await task


async def test_an_attempt_that_failed_before_does_not_count(
    cluster: FakeCluster, make_client: Callable[..., ClientUnderTest]
) -> None:
    under_test = await make_client().started()
    cluster[2].behaviour = "refuse"
    assert not under_test.client.ready(under_test.node(2), under_test.now)
    await under_test.loop.settle()
    cluster[2].behaviour = "accept"
    task = asyncio.ensure_future(await_ready(under_test.client, under_test.node(2), under_test.loop.time))
    await under_test.loop.advance(1)
    assert await task == under_test.node(2)


async def test_the_body_is_returned_and_options_are_passed_on(client: Client) -> None:
    client.is_node_ready = True
    task = ask(client, NODE, max_version=3)
    await FakeLoop().settle()
    assert client.sent[0].max_version == 3
    body: Any = "body"
    client.future.set_result(ClientResponse(client.sent[0], 3, body))
    assert await task is body


async def test_the_responses_error_is_raised(client: Client) -> None:
    client.is_node_ready = True
    task = ask(client, NODE)
    await FakeLoop().settle()
    client.future.set_result(ClientResponse(client.sent[0], 3, error=NotControllerError()))
    with pytest.raises(NotControllerError):
        await task


async def test_a_time_out_names_the_request_the_place_and_the_cause(client: Client) -> None:
    with pytest.raises(KafkaTimeoutError, match=r"METADATA from node 1 \(\[::1\]:1\) within 0 s: the cause"):
        await ask(client, NODE, timeout=0)
    with pytest.raises(KafkaTimeoutError, match="from any broker"):
        await ask(client, timeout=0)


async def test_a_refusal_is_raised_in_place_of_the_answer_that_it_fails_and_neither_goes_on() -> None:
    async def refused() -> NoReturn:
        raise NotControllerError

    async def failing() -> None:
        raise DisconnectedError

    async def never() -> NoReturn:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("never")
        raise AssertionError

    ended: list[str] = []
    assert await unless_refused(asyncio.sleep(0, "answer"), never()) == "answer"
    for answer in (never(), failing()):
        with pytest.raises(NotControllerError):
            await unless_refused(answer, refused())
    with pytest.raises(DisconnectedError):
        await unless_refused(failing(), never())
    assert ended == ["never"] * 3
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_only_a_refusal_that_was_not_known_before_counts(client: Client) -> None:
    metadata = Metadata(**METADATA_OPTIONS)
    known, new = AuthenticationFailedError("old"), AuthenticationFailedError("new")
    metadata.set_fatal_error(known)
    task = asyncio.ensure_future(next_refusal(metadata, client, known))
    client.change.set()
    await FakeLoop().settle()
    assert not task.done()
    metadata.set_fatal_error(new)
    client.change.set()
    assert await task is new


async def test_a_closed_client_is_refused_no_more(client: Client) -> None:
    task = asyncio.ensure_future(next_refusal(Metadata(**METADATA_OPTIONS), client, None))
    await FakeLoop().settle()
    client.is_active = False
    client.change.set()
    assert await task is None
