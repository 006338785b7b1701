"""The simulation itself: a minute's seeds without a finding, each of which replays exactly, and a checker that finds.

The seeds run in a process of their own, so that they replay with the command that a finding prints. What a checker that
sees nothing would miss is proven by sabotage: with a known fault put into the product, seeds must find it.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import aiokafkapy
from aiokafkapy import RecordMetadata
from aiokafkapy.broker.storage.producer_state import ProducerStateManager
from aiokafkapy.errors import KafkaTimeoutError

from .checker import check_records
from .scenario import run
from .simulated_loop import Deadlock, SimulatedLoop
from .workload import Sent

CPU_SECONDS = 60
"""For seeds, each time the tests run: some hundreds. `make soak` and `python -m tests.simulation --seeds N` do more."""
FEWEST_SEEDS = 100
SECONDS = 1_200
"""Until a process is taken to hang: a busy machine gives it a fraction of a processor."""
TWO_SENDERS_OF_WHICH_ONE_CRASHES = 82
OPTIONS = {"max_block_ms": 1_000, "delivery_timeout_ms": 2_000}


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.mark.timeout(SECONDS + 20)
def test_a_minutes_seeds_find_nothing() -> None:
    # The interpreted form gets other seeds than the compiled one: both run in CI.
    first = 0 if aiokafkapy.compiled else 1_000_000
    done = simulate("--first", str(first), "--cpu-seconds", str(CPU_SECONDS))
    assert done.returncode == 0, done.stdout + done.stderr
    seeds = re.search(r"^(\d+) seeds in", done.stdout, re.MULTILINE)
    assert seeds is not None
    assert int(seeds[1]) >= FEWEST_SEEDS


def test_a_seed_replays_exactly() -> None:
    first, second = simulate("--seed", "3"), simulate("--seed", "3")
    assert first.stdout == second.stdout
    assert first.stdout.count("\n") > 100
    assert first.stdout != simulate("--seed", "4").stdout


def test_the_machines_time_and_chance_have_no_say() -> None:
    for seed in range(5, 10):
        assert run(seed).fingerprint == run(seed).fingerprint


def test_nor_have_the_addresses_of_tasks() -> None:
    """One of two Senders crashes: the same one each time."""
    reports = [run(TWO_SENDERS_OF_WHICH_ONE_CRASHES) for _ in range(8)]
    assert len(reports[0].options) == 2
    assert reports[0].counts["crash of a Sender"] == 1
    assert len({report.fingerprint for report in reports}) == 1


# sabotage


def forget_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerStateManager, "check", lambda *_: None)


def believe_that_nothing_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokafkapy.producer.sender.produce_responses._IN_DOUBT", frozenset())


def swap_the_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiokafkapy.broker.handlers import produce

    append = produce._append

    def wrong(*arguments: Any) -> dict[str, Any]:
        answer = append(*arguments)
        return answer | {"base_offset": answer["base_offset"] + 1}

    monkeypatch.setattr(produce, "_append", wrong)


def lose_what_was_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    from .replication import Replication

    truncate = Replication._truncate
    monkeypatch.setattr(
        Replication, "_truncate", lambda self, partition, end: truncate(self, partition, 0 if end else end)
    )


@pytest.mark.parametrize(
    ("sabotage", "finding"),
    [
        (forget_duplicates, "repeated"),
        (believe_that_nothing_is_in_doubt, "said to be not written, and is"),
        (swap_the_offsets, "elsewhere than told"),
        (lose_what_was_acknowledged, "acknowledged and lost"),
    ],
)
def test_seeds_find_a_fault_in_the_product(
    sabotage: Callable[[pytest.MonkeyPatch], None], finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch)
    for seed in range(150):
        if any(finding in found for found in run(seed).findings):
            return
    pytest.fail("150 seeds found nothing")


@pytest.mark.parametrize("has_timers", [False, True])
def test_a_hang_is_found(has_timers: bool) -> None:
    """Also where timers come for ever, as they do in every producer."""
    loop = SimulatedLoop(lambda: 0.0)

    def come_again() -> None:
        loop.call_later(100, come_again)

    async def hang() -> None:
        if has_timers:
            come_again()
        await loop.create_future()

    try:
        with pytest.raises(Deadlock, match="hang"):
            loop.run_until_complete(hang())
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
    finally:
        loop.close()


# the checker, sentence by sentence


def sent(order: int, outcome: Any = None, *, seconds: float = 0.1, **fields: Any) -> Sent:
    return Sent(0, order, b"%d" % order, 10.0, outcome=outcome, ended=10.0 + seconds, **fields)


def at(partition: int, offset: int) -> RecordMetadata:
    return RecordMetadata("t", partition, offset, 0, -1, 1)


@pytest.mark.parametrize(
    ("records", "log", "finding"),
    [
        ([sent(0)], [], "record 0/0 without an outcome"),
        ([sent(0, at(0, 0))], [], "acknowledged and lost: told (0, 0)"),
        ([sent(0, at(0, 1))], [b"0"], "elsewhere than told: told (0, 1), is at [(0, 0)]"),
        ([sent(0, at(1, -1))], [b"0"], "elsewhere than told: told (1, -1), is at [(0, 0)]"),
        ([sent(0, at(0, 0))], [b"0", b"0"], "repeated: [(0, 0), (0, 1)]"),
        ([sent(0, KafkaTimeoutError("late"))], [b"0"], "said to be not written, and is: [(0, 0)]"),
        ([sent(0, ValueError("bug"))], [], "failed with an error that is not Kafka's"),
        ([sent(0, at(0, 1)), sent(1, at(0, 0))], [b"1", b"0"], "record 0/1 was called in after record 0/0"),
        ([sent(0, at(0, 0), seconds=3.2)], [b"0"], "had its outcome after 3.200 s; the limit is 3.010 s"),
    ],
)
def test_the_checker_tells_each_broken_promise(records: list[Sent], log: list[bytes], finding: str) -> None:
    (found,) = check_records(records, {0: log, 1: []}, OPTIONS)
    assert finding in found


def test_the_checker_takes_what_is_promised() -> None:
    in_doubt = KafkaTimeoutError("late", outcome_unknown=True)
    records = [
        sent(0, at(0, 0)),
        sent(1, in_doubt),
        sent(2, in_doubt),
        sent(3, is_cancelled=True),
        sent(4, KafkaTimeoutError("refused")),
        sent(5, at(0, -1)),
    ]
    assert list(check_records(records, {0: [b"0", b"1", b"3", b"5"]}, OPTIONS)) == []


def test_without_idempotence_a_record_may_be_repeated_but_not_lost() -> None:
    options = OPTIONS | {"enable_idempotence": False}
    assert list(check_records([sent(0, at(0, 1))], {0: [b"0", b"0"]}, options)) == []
    assert len(list(check_records([sent(0, at(0, 0))], {0: []}, options))) == 1
