from __future__ import annotations

import asyncio
import math
import re
from typing import Any

import pytest

from aiokafkapy.client.nodes.connection_states import NodeConnectionState
from aiokafkapy.client.transport.broker_connections import BrokerConnections
from aiokafkapy.client.transport.connection import BrokerConnection
from aiokafkapy.common import Node
from aiokafkapy.errors import ConfigurationError, KafkaConnectionError, KafkaError, SslAuthenticationFailedError
from tests.unit.client.fakes import FakeLoop

NODE = Node(1, "one", 1)


class Transport:
    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """Nothing is buffered here."""

    def get_extra_info(self, name: str) -> None:
        """Nothing is encrypted here."""

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


class Setting:
    """Sockets, and the owner and connector they talk to."""

    def __init__(self, *, is_authenticated_by_tls: bool = False) -> None:
        self.loop = FakeLoop()
        self.outcome: BaseException | None = None
        self.hangs = False
        self.made: list[BrokerConnection] = []
        self.failed: list[tuple[int, KafkaError]] = []
        self.unreachable: list[tuple[str, str]] = []
        loop: Any = self.loop
        owner: Any = self
        self.sockets = BrokerConnections(
            self,
            owner,
            loop,
            current={},
            on_connect_failed=lambda node_id, error: self.failed.append((node_id, error)),
            on_address_failure=lambda address, error: self.unreachable.append((address, str(error))),
            max_response_size=1_000,
            is_authenticated_by_tls=is_authenticated_by_tls,
        )

    async def connect(self, state: Any, protocol_factory: Any, on_address_failure: Any) -> None:
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.outcome is not None:
            raise self.outcome
        connection = protocol_factory("one:1")
        connection.connection_made(Transport(connection))

    def on_connection_made(self, connection: BrokerConnection) -> None:
        self.made.append(connection)
        self.sockets.adopt(connection)

    def on_connection_lost(self, connection: BrokerConnection, error: BaseException | None) -> None:
        self.sockets.lost(connection)

    async def begin(self) -> None:
        self.sockets.connect(NODE, NodeConnectionState("one", 1))
        await self.loop.settle()


@pytest.fixture
async def setting() -> Setting:
    return Setting()


async def test_an_attempt_that_succeeds_is_its_nodes_connection(setting: Setting) -> None:
    await setting.begin()
    (connection,) = setting.made
    assert setting.sockets.is_current(connection)
    assert setting.sockets.node_ids() == {1}
    assert setting.sockets.drop(1) is connection
    assert not setting.sockets.is_current(connection)
    await setting.sockets.wait_closed()


async def test_connections_are_counted_when_they_are_made_and_when_their_socket_is_closed(setting: Setting) -> None:
    counts = setting.sockets.counts
    for number in range(3):
        await setting.begin()
        assert (counts.created.total, counts.closed.total) == (number + 1, number)
        setting.sockets.drop(1)
        await setting.sockets.wait_closed()
        setting.sockets.lost(setting.made[-1])  # told twice
    assert (counts.created.total, counts.closed.total) == (3, 3)
    setting.outcome = ConnectionRefusedError("no")
    await setting.begin()
    assert counts.created.total == 3, "an attempt is not a connection"


async def test_a_tls_handshake_counts_as_an_authentication_where_there_is_no_sasl() -> None:
    setting = Setting(is_authenticated_by_tls=True)
    await setting.begin()
    counts = setting.sockets.counts
    assert (counts.authenticated.total, counts.authentication_failed.total) == (1, 0)
    setting.sockets.drop(1)
    await setting.sockets.wait_closed()


async def test_a_refused_tls_handshake_is_a_failed_authentication(setting: Setting) -> None:
    counts = setting.sockets.counts
    setting.outcome = SslAuthenticationFailedError("a certificate of another authority")
    await setting.begin()
    assert (counts.authenticated.total, counts.authentication_failed.total) == (0, 1)
    setting.outcome = KafkaConnectionError("went away")
    await setting.begin()
    assert counts.authentication_failed.total == 1


async def test_a_network_failure_is_reported_and_not_raised(setting: Setting) -> None:
    setting.outcome = ConnectionRefusedError("no")
    await setting.begin()
    ((node_id, error),) = setting.failed
    assert node_id == 1
    assert isinstance(error, KafkaConnectionError)
    assert setting.sockets.node_ids() == set()
    await setting.sockets.wait_closed()


async def test_another_error_is_reported_without_its_text(setting: Setting) -> None:
    """An error of python-socks had a password in its text; asyncio logged it, as the error of a task that nobody
    awaits.
    """
    setting.outcome = UnicodeEncodeError("latin-1", "alice:s3cr\u20ac", 10, 11, "no")
    setting.sockets.connect(NODE, NodeConnectionState("one", 1))
    (task,) = setting.sockets._tasks
    await setting.loop.settle()
    assert task.exception() is None
    ((node_id, error),) = setting.failed
    assert node_id == 1
    assert isinstance(error, KafkaConnectionError)
    assert re.fullmatch(
        rf"cannot connect to one:1: UnicodeEncodeError \(line \d+ of {re.escape(__file__)}\)", str(error)
    )
    assert setting.unreachable == [("one:1", str(error))]
    await setting.sockets.wait_closed()


async def test_a_missing_file_is_reported_in_our_words(setting: Setting) -> None:
    setting.outcome = ConfigurationError("ssl_truststore_location: there is no such file")
    await setting.begin()
    assert setting.failed == [(1, setting.outcome)]
    assert setting.unreachable == [("one:1", str(setting.outcome))]
    await setting.sockets.wait_closed()


async def test_an_attempt_that_is_given_up_tells_nothing_and_ends(setting: Setting) -> None:
    setting.hangs = True
    await setting.begin()
    assert setting.sockets.drop(1) is None
    await setting.sockets.wait_closed()
    assert setting.failed == []


async def test_a_socket_of_an_attempt_given_up_is_closed(setting: Setting) -> None:
    await setting.begin()
    late = BrokerConnection(1, setting, setting.loop.time(), max_response_size=1_000)  # type: ignore[arg-type]
    late.connection_made(Transport(late))  # type: ignore[arg-type]
    assert not setting.sockets.is_current(late)
    setting.sockets.drop(1)
    await setting.sockets.wait_closed()
    assert late.is_closed


async def test_idleness(setting: Setting) -> None:
    assert setting.sockets.idle_since(frozenset(), 7.0) == math.inf
    began = setting.loop.time()
    await setting.begin()
    assert setting.sockets.idle_since(frozenset(), began + 9) == began
    assert setting.sockets.idle_since(frozenset({1}), began + 9) == began + 9
    assert setting.sockets.idle_connections(began + 4, 5) == []
    assert setting.sockets.idle_connections(began + 5, 5) == setting.made
    setting.sockets.drop(1)
    await setting.sockets.wait_closed()


async def test_a_connection_is_idle_when_the_timer_comes_however_its_time_is_rounded(setting: Setting) -> None:
    """Otherwise the timer is armed for the same time again, and the loop spins for as long as its clock shows it."""
    began = setting.loop.time()
    max_idle = next(idle for idle in (number / 7 for number in range(1, 9_999)) if began + idle - idle < began)
    await setting.begin()
    due = setting.sockets.idle_since(frozenset(), 0.0) + max_idle
    assert setting.sockets.idle_connections(due, max_idle) == setting.made
    setting.sockets.drop(1)
    await setting.sockets.wait_closed()


async def test_a_connection_that_comes_after_its_attempt_was_given_up_is_not_waited_for(setting: Setting) -> None:
    """A transport that is aborted in ``connection_made`` is never reported as closed by uvloop."""

    class SilentTransport(Transport):
        aborted = False

        def abort(self) -> None:
            self.aborted = True

    setting.hangs = True
    await setting.begin()
    setting.sockets.drop(NODE.node_id)
    owner: Any = setting
    late: Any = BrokerConnection(NODE.node_id, owner, 0.0, "one:1", max_response_size=1_000)
    transport = SilentTransport(late)
    late.connection_made(transport)
    assert transport.aborted
    await asyncio.wait_for(setting.sockets.wait_closed(), 2)
