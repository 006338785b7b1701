"""Calls that leave the simulation: each is refused at once, with the remedy, and the run has failed."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.testing.simulation import Simulation, SimulationError, SimulationFailure, simulate


async def work_in_a_thread() -> None:
    await asyncio.to_thread(len, "x")


async def work_in_an_executor() -> None:
    await asyncio.get_running_loop().run_in_executor(None, len, "x")


async def start_a_thread() -> None:
    threading.Thread(target=len, args=("x",)).start()


async def sleep_for_real() -> None:
    time.sleep(0)  # noqa: ASYNC251


async def connect_a_socket() -> None:
    with socket.socket() as sock:
        sock.connect(("127.0.0.1", 9))


async def connect_a_socket_by_the_loop() -> None:
    with socket.socket() as sock:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", 9))


async def open_a_connection() -> None:
    await asyncio.open_connection("db.example", 5432)


async def look_a_name_up() -> None:
    await asyncio.get_running_loop().getaddrinfo("db.example", 5432)


async def start_a_server() -> None:
    await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)


async def start_a_process() -> None:
    await asyncio.create_subprocess_exec("true")


REFUSED = [
    (work_in_a_thread, "a thread for 'len' in a simulation: there are no threads; give threads=\"simulated\""),
    (work_in_an_executor, "a thread for 'len' in a simulation"),
    (start_a_thread, "a new thread in a simulation"),
    (sleep_for_real, "await asyncio.sleep(), which takes no time"),
    (connect_a_socket, "a socket's connect() in a simulation: there is no real network"),
    (connect_a_socket_by_the_loop, "a connection to ('127.0.0.1', 9) in a simulation"),
    (open_a_connection, "a connection to db.example:5432 in a simulation"),
    (look_a_name_up, "looking up 'db.example' in a simulation"),
    (start_a_server, "a server in a simulation"),
    (start_a_process, "another process in a simulation"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=lambda each: getattr(each, "__name__", ""))
@pytest.mark.parametrize("is_swallowed", [False, True])
def test_a_call_is_refused_though_the_service_takes_the_error_for_another(
    call: Callable[[], Awaitable[None]], message: str, is_swallowed: bool
) -> None:
    async def scenario(world: Simulation) -> None:
        try:
            await call()
        except Exception:
            if not is_swallowed:
                raise

    with pytest.raises(SimulationFailure) as raised:
        simulate(scenario, 1, faults=None)
    assert isinstance(raised.value.__cause__, SimulationError)
    assert message in str(raised.value)


def test_a_thread_s_work_runs_as_one_step_where_that_is_asked_for() -> None:
    threads = []

    async def scenario(world: Simulation) -> None:
        assert await asyncio.to_thread(len, "abc") == 3
        threads.append(await asyncio.get_running_loop().run_in_executor(None, threading.get_ident))

    simulate(scenario, 1, faults=None, threads="simulated")
    assert threads == [threading.get_ident()]


def test_the_guard_allows_the_producer_s_own_threads() -> None:
    """Large batches are compressed in one, and slow serializers run in one."""

    async def scenario(world: Simulation) -> None:
        options = {"compression_type": "gzip", "batch_size": 2_000_000, "max_request_size": 3_000_000}
        async with KafkaProducer(
            world.bootstrap_servers,
            value_serializer=lambda value: value.encode(),
            serialize_in_thread_above=10,
            **options,  # type: ignore[arg-type]
        ) as producer:
            await producer.send_many("orders", ["a" * 900_000, "b" * 900_000])
        assert len(world.broker.records("orders")) == 2

    simulate(scenario, 2, faults=None, broker={"message_max_bytes": 4_000_000})


def test_other_threads_of_the_process_are_not_watched() -> None:
    done = threading.Event()
    go_on = threading.Event()
    slept: list[object] = []

    def sleep() -> None:
        go_on.wait(60)
        try:
            time.sleep(0)
        except SimulationError as error:
            slept.append(error)
        done.set()

    other = threading.Thread(target=sleep)
    other.start()

    async def scenario(world: Simulation) -> None:
        go_on.set()
        assert done.wait(60)

    simulate(scenario, 1, faults=None)
    other.join()
    assert slept == []
