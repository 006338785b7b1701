"""The state that threads share in the compiled core: little, each part with its guard, for a Python without a GIL too.

The core declares ``freethreading_compatible``: an import of it does not turn the GIL on. So state that its modules keep
between calls needs another guard, or must not be kept there. Each name here has its guard.
"""

from __future__ import annotations

import queue
import random
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import aiokafkapy
from aiokafkapy.producer.deliveries.shortcuts import running_loop
from aiokafkapy.record.builder import RecordBatchBuilder, decode_records, plain_headers

PACKAGE: Final = Path(aiokafkapy.__file__).parent

KEPT: Final = {
    # Behind a lock, where there is no GIL
    "record/builder.pyx": {"kept_blocks", "kept_bytes", "checked_headers", "checked_size", "_crc32c", "NO_SIZES"},
    # Not used, where there is no GIL; but for ``_LONE_TAIL``, which is made at import
    "producer/deliveries/shortcuts.pyx": {"last_found", "last_loop", "last_version", "SYSTEM_TIME"},
    "protocol/produce_request.pxd": {"_last_lone_head", "_LONE_TAIL"},
    # Made at import, and the same ever after; ``tasks_names`` is found at the first call, and each thread's is right
    "producer/deliveries/waiter.pyx": {
        "DONE",
        "CALL_SOON",
        "CONTEXT",
        "add_done_callback",
        "tasks_names",
    },
    "producer/deliveries/returned.pyx": {"installed"},
    "producer/deliveries/record_metadata.pyx": {"METADATA"},
    "producer/deliveries/waiting.pxd": {"_installed"},
    "producer/accumulator/producer_batch.pxd": {"_changes"},
    "security/tls_transport.pxd": {"_SHAKING_HANDS", "_OPEN", "_CLOSED"},
    # Shared by all threads: a set, which guards itself; a record only asks whether it is empty
    "producer/intake/record_sender.pxd": {"_open_deadlines"},
    # Likewise; the others are set once, at import
    "producer/intake/short_calls.pyx": {
        "accept_in_full",
        "admit_at_once",
        "deadlines",
        "enqueue_function",
        "enqueue_in_full",
        "finish_enqueue",
        "let_go",
        "most_unyielded",
        "send_nowait_in_full",
    },
}
_NUMBER: Final = re.compile(r"cdef (?:[us]?int\d*_t|uint\d+_t(?:\[\d+\])?|int|long long|double|Py_ssize_t|bint|str) ")


def test_the_core_declares_that_it_needs_no_gil() -> None:
    setup = (PACKAGE.parent / "setup.py").read_text()
    assert '"freethreading_compatible": True' in setup


def test_the_state_that_modules_keep_between_calls_is_known() -> None:
    found: dict[str, set[str]] = {}
    for path in sorted([*PACKAGE.rglob("*.pyx"), *PACKAGE.rglob("*.pxd")]):
        for line in path.read_text().splitlines():
            if not line.startswith("cdef ") or "(" in line.partition("=")[0] or line.rstrip().endswith(":"):
                continue
            names = line.partition("=")[0].removeprefix("cdef ")
            # Numbers and text that are set once are constants: in capitals, or with an underscore before.
            last = [re.sub(r"\W|\[.*", "", one.split()[-1]) for one in re.sub(r"\[\w+\]", "", names).split(",")]
            is_number = _NUMBER.match(line) is not None
            kept = {name for name in last if not (is_number and name.strip("_").isupper())}
            if kept:
                found.setdefault(path.relative_to(PACKAGE).as_posix(), set()).update(kept)
    unknown = {where: names - KEPT.get(where, set()) for where, names in found.items()}
    assert {where: names for where, names in unknown.items() if names} == {}


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def threads(count: int, work: Any) -> None:
    """Run ``work(number)`` in so many threads at once; raise an exception of one of them."""
    failed: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failed.append(error)

    started = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for one in started:
        one.start()
    for one in started:
        one.join(60)
    assert not any(one.is_alive() for one in started)
    if failed:
        raise failed[0]


def test_batches_of_several_threads_have_their_own_bytes(switching: None) -> None:
    """Blocks are freed by another thread than took them, and header tuples are checked by several at once."""
    done: queue.SimpleQueue[tuple[bytes, list[Any], Any]] = queue.SimpleQueue()
    shared = [plain_headers([(f"h{number}", bytes(number * 7))]) for number in range(6)]

    def build(number: int) -> None:
        chosen = random.Random(number)
        for _ in range(60):
            builder = RecordBatchBuilder(1 << 20)
            wanted = []
            for place in range(chosen.randrange(1, 60)):
                headers = shared[chosen.randrange(len(shared))] if place % 2 else plain_headers([(f"t{number}", b"x")])
                value = bytes([number]) * chosen.choice((1, 30, 700, 5_000, 40_000))
                assert builder.try_append(1_000 + place, b"%d" % place, value, headers)
                wanted.append((b"%d" % place, value, tuple(headers or ())))
            view = builder.records_view()
            done.put((bytes(view), wanted, builder))
            view.release()
            if chosen.random() < 0.5:
                done.get()  # another thread's, as a rule: its blocks come back here

    threads(6, build)
    count = 0
    while not done.empty():
        content, wanted, _ = done.get()
        found = decode_records(content, len(wanted), 0, 1_000)
        assert [(one[1], one[2], tuple(one[3])) for one in found] == wanted
        count += 1
    assert count > 60


def test_each_thread_finds_its_own_loop(switching: None) -> None:
    import asyncio

    async def look(loop: asyncio.AbstractEventLoop) -> None:
        for place in range(2_000):
            assert running_loop() is loop
            if place % 100 == 0:
                await asyncio.sleep(0)

    def run(_number: int) -> None:
        assert running_loop() is None
        for _ in range(3):
            loop = asyncio.new_event_loop()
            try:
                loop.run_until_complete(look(loop))
            finally:
                loop.close()
            assert running_loop() is None

    threads(5, run)
