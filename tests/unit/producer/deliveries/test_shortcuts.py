"""aiokafkapy.producer.deliveries.shortcuts: each agrees with the standard library, over loops and threads."""

from __future__ import annotations

import asyncio
import decimal
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from unittest import mock

import pytest

from aiokafkapy._form import INTERPRETED_VARIABLE
from aiokafkapy.producer.deliveries.shortcuts import now_ms, running_loop


async def asked() -> bool:
    return running_loop() is asyncio.get_running_loop() is running_loop()


def test_the_running_loop_is_none_where_no_loop_runs() -> None:
    assert running_loop() is None


def test_the_running_loop_is_the_one_that_runs_now() -> None:
    assert asyncio.run(asked())
    assert running_loop() is None
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        for loop in (first, second, first, first):
            assert loop.run_until_complete(asked())
            assert running_loop() is None
    finally:
        first.close()
        second.close()


async def test_the_running_loop_is_another_one_in_another_thread() -> None:
    assert await asked()
    found: list[object] = []

    def elsewhere() -> None:
        found.append(running_loop())
        found.append(asyncio.run(asked()))
        found.append(running_loop())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    while thread.is_alive():
        assert running_loop() is asyncio.get_running_loop()
        await asyncio.sleep(0)
    thread.join()
    assert found == [None, True, None]
    assert await asked()


def test_the_running_loop_is_this_threads_own_though_another_asks_while_the_last_one_is_let_go() -> None:
    found: list[object] = []

    def in_a_thread(*loops: object) -> None:
        for loop in loops:
            asyncio._set_running_loop(loop)  # type: ignore[arg-type]
            found.append(running_loop() is loop)
            found.append(running_loop() is loop)
        asyncio._set_running_loop(None)

    class Last:
        """A loop that is let go when the next one is asked for; another thread runs in between."""

        def __del__(self) -> None:
            run(in_a_thread, mock.Mock())

        is_running = bool

    def run(target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        thread.start()
        thread.join()

    def one_after_the_other() -> None:
        in_a_thread(Last())
        in_a_thread(mock.Mock())

    run(one_after_the_other)
    assert found == [True] * 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
async def test_the_running_loop_is_asyncios_in_a_forked_child() -> None:
    assert await asked()
    child = os.fork()
    if not child:
        os._exit(0 if running_loop() is asyncio._get_running_loop() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # noqa: ASYNC222


async def test_running_loop_stays_right_when_the_threads_own_mapping_changes() -> None:
    assert await asked()
    for number in range(3):
        decimal.setcontext(decimal.Context(prec=20 + number))  # kept for each thread, beside the loop
        threading.local().anything = number
        assert await asked()


def test_now_ms_is_the_time_of_the_system() -> None:
    before = int(time.time() * 1000)
    assert before <= now_ms() <= int(time.time() * 1000) + 1


def test_now_ms_goes_by_a_clock_put_in_its_place() -> None:
    with mock.patch(f"{now_ms.__module__}.time", return_value=12.3456):
        assert now_ms() == 12_345
    assert now_ms() > 1_700_000_000_000


IMPORTED_WHILE_FROZEN = """
import time
import freezegun

with freezegun.freeze_time("2024-01-02 03:04:05"):
    from aiokafkapy.producer.deliveries.shortcuts import now_ms
    from aiokafkapy import KafkaProducer
    assert now_ms() == 1_704_164_645_000, now_ms()
assert abs(now_ms() - time.time() * 1000) < 1_000, now_ms()
with freezegun.freeze_time("2024-01-02 03:04:06"):
    assert now_ms() == 1_704_164_646_000, now_ms()
"""


@pytest.mark.parametrize("form", ["", "1"], ids=["as it is", "interpreted"])
def test_a_first_import_while_time_is_frozen_stamps_as_any_other(form: str) -> None:
    environment = os.environ | {INTERPRETED_VARIABLE: form}
    subprocess.run([sys.executable, "-c", IMPORTED_WHILE_FROZEN], check=True, env=environment, timeout=60)
