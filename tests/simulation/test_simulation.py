"""The simulation itself: ten seconds of seeds without findings, exact replay, and a checker that does find faults.

The seeds run in a process of their own, so that the command printed with a finding replays it. Sabotage proves that the
checker works: with a known bug put into the product, seeds must find it.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import aiokafkapy
from aiokafkapy import KafkaProducer, RecordMetadata
from aiokafkapy.broker.storage.producer_state import ProducerStateManager
from aiokafkapy.errors import KafkaError, KafkaTimeoutError, ProducerClosedError
from aiokafkapy.producer import arguments
from aiokafkapy.producer.intake import admission, async_serializers, partitioners, record_intake
from aiokafkapy.producer.intake.admission import Admission
from aiokafkapy.producer.intake.interceptors import ProducerInterceptors
from aiokafkapy.producer.intake.pending_record import PendingRecord
from aiokafkapy.producer.intake.topic_state import TopicState
from aiokafkapy.producer.state import ProducerState
from aiokafkapy.testing.simulation.simulated_loop import Deadlock, SimulatedLoop

from .checker import check_headers, check_records
from .run import left_in_memory, run
from .scenario import Scenario
from .workload import Sent

CPU_SECONDS = 10
"""The CPU for seeds, each time the tests run: some eighty seeds. ``make soak`` does more."""
FEWEST_SEEDS = 20
SECONDS = 1_200
"""Seconds after which a process counts as hung, on a busy machine."""
TWO_SENDERS_OF_WHICH_ONE_CRASHES = 82
HARM = LookupError()
OPTIONS = {"max_block_ms": 1_000, "delivery_timeout_ms": 2_000}


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.mark.timeout(SECONDS + 20)
def test_ten_seconds_of_seeds_find_nothing() -> None:
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
    monkeypatch.setattr(ProducerStateManager, "check", lambda *_, **__: None)


def believe_that_nothing_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokafkapy.producer.sender.produce_responses._IN_DOUBT", frozenset())


def swap_the_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiokafkapy.broker.handlers import produce

    append: Any = produce._append

    def wrong(*arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = append(*arguments)
        return answer | {"base_offset": answer["base_offset"] + 1}

    monkeypatch.setattr(produce, "_append", wrong)


def lose_acknowledged_records(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiokafkapy.testing.simulation.replication import Replication

    truncate = Replication._truncate
    monkeypatch.setattr(
        Replication, "_truncate", lambda self, partition, end: truncate(self, partition, 0 if end else end)
    )


# sabotage around a user's code and odd arguments


def ask_the_partitioner_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = partitioners.choose_partition

    def twice(*arguments: Any) -> int:
        choose(*arguments)
        return choose(*arguments)

    monkeypatch.setattr(record_intake, "choose_partition", twice)
    monkeypatch.setattr(admission, "choose_partition", twice)


def ask_the_partitioner_before_serialization(monkeypatch: pytest.MonkeyPatch) -> None:
    enter = Admission.enter

    def early(self: Admission, record: PendingRecord, now: float) -> None:
        if record.partition is None and self.metadata.cluster.partition_count(record.topic):
            self.append(record, now)
        enter(self, record, now)

    monkeypatch.setattr(Admission, "append", _choose_only)
    monkeypatch.setattr(Admission, "enter", early)


def _choose_only(self: Admission, record: PendingRecord, _: float) -> None:
    cluster = self.metadata.cluster
    record.partition = partitioners.choose_partition(
        self._partitioner, record.topic, record.key, record.value, *record.original, cluster
    )


def forget_the_partitioners_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = partitioners.choose_partition

    def forgetful(*arguments: Any) -> int:
        choose(*arguments)
        return 0

    monkeypatch.setattr(record_intake, "choose_partition", forgetful)


def let_in_the_last_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def join(self: Admission, state: TopicState, record: PendingRecord) -> None:
        if state.waiting is None:
            state.waiting = deque()
            self._queues[state] = None
        state.waiting.appendleft(record)

    monkeypatch.setattr(Admission, "join", join)


def let_an_error_of_a_partitioner_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error escapes inside ``data_received``, where it ends a connection and leaves the topic's other records
    waiting.
    """

    def let_in(self: Admission, state: TopicState, record: PendingRecord, now: float) -> bool:
        if not state.partition_count:
            return False
        self.append(record, now)
        return True

    monkeypatch.setattr(Admission, "let_in", let_in)


def let_an_error_of_an_interceptor_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    call = ProducerInterceptors._call

    def let_fail(self: ProducerInterceptors, interceptor: object, name: str, *arguments: Any) -> Any:
        errors: list[BaseException] = []
        monkeypatch.setattr(self, "_on_error", lambda _, error: errors.append(error))
        found = call(self, interceptor, name, *arguments)
        if errors and isinstance(errors[0], Exception):
            raise errors[0]
        return found

    monkeypatch.setattr(ProducerInterceptors, "_call", let_fail)


def tell_interceptors_of_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    tell = ProducerInterceptors.on_acknowledgement

    def told(self: ProducerInterceptors, metadata: Any, error: Any, headers: Any) -> None:
        if metadata is not None or isinstance(error, KafkaError):
            tell(self, metadata, error, headers)

    monkeypatch.setattr(ProducerInterceptors, "on_acknowledgement", told)


def forget_to_close_a_coroutine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_serializers, "discard", lambda *_: None)
    monkeypatch.setattr(record_intake, "discard", lambda *_: None)


def take_the_result_of_an_async_serializer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_serializers, "check_data", lambda *_: None)
    monkeypatch.setattr(async_serializers, "plain_data", lambda data: data if isinstance(data, bytes | None) else b"")


def read_headers_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "materialized", lambda _, headers: tuple(headers) and tuple(headers))


def take_any_number_for_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "_integer_of", lambda topic, name, given, wanted: 0)


def keep_refused_records(monkeypatch: pytest.MonkeyPatch) -> None:
    settled = Admission.settled

    def keep(self: Admission, record: PendingRecord) -> None:
        if record.cancelled() or record.exception() is None:
            settled(self, record)

    monkeypatch.setattr(Admission, "settled", keep)


# The seeds to look at first: a few of a hundred meet these.
FIRST_SEEDS: dict[Callable[..., None], int] = {
    read_headers_twice: 29,
    believe_that_nothing_is_in_doubt: 56,
}


@pytest.mark.parametrize(
    ("sabotage", "finding"),
    [
        (ask_the_partitioner_twice, "was asked 2 times"),
        (ask_the_partitioner_before_serialization, "not the serialized value"),
        (forget_the_partitioners_choice, "the partitioner said"),
        (let_in_the_last_first, "was asked for record"),
        (let_an_error_of_a_partitioner_escape, "of a hook"),
        (let_an_error_of_an_interceptor_escape, "of a hook"),
        (tell_interceptors_of_no_refusal, "and told of"),
        (forget_to_close_a_coroutine, "was never awaited"),
        (take_the_result_of_an_async_serializer, "was to be refused"),
        (read_headers_twice, "and was given"),
        (take_any_number_for_a_partition, "was to be refused and is in the log"),
        (keep_refused_records, "the loop spins"),
        (forget_duplicates, "repeated"),
        (believe_that_nothing_is_in_doubt, "said to be not written, and is"),
        (swap_the_offsets, "elsewhere than told"),
        (lose_acknowledged_records, "acknowledged and lost"),
    ],
)
def test_seeds_find_a_fault_in_the_product(
    sabotage: Callable[[pytest.MonkeyPatch], None], finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch)
    first = FIRST_SEEDS.get(sabotage, 0)
    try:
        found = (each for seed in range(first, first + 150) for each in run(seed).findings)
        assert any(finding in each for each in found), "150 seeds found nothing"
    finally:
        left_in_memory()  # a coroutine that the sabotage lost is to warn here, and not in a run of the next test


@pytest.mark.parametrize("seed", [8, 35, 58])
def test_a_seed_leaves_nothing_in_memory(seed: int) -> None:
    # These have errors kept by objects that the cyclic collector does not see, each in another place.
    done = simulate("--first", str(seed), "--seeds", "2")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("seed", [4000064, 5001995, 5002198, 7003574])
def test_a_seed_that_once_found_something_finds_nothing(seed: int) -> None:
    # A call that outlived its transaction; a thread that outlived close(); an error for one batch that hit another;
    # a crash after a commit, told to a call without any row in that transaction.
    assert run(seed).findings == []


def test_a_run_that_fails_leaves_no_producer_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sabotage may hold on to it for longer than the run."""
    producers: list[KafkaProducer[Any, Any]] = []
    make = Scenario._new_producer

    def remember(self: Scenario, number: int, options: dict[str, Any]) -> KafkaProducer[Any, Any]:
        producers.append(make(self, number, options))
        return producers[-1]

    monkeypatch.setattr(Scenario, "_new_producer", remember)
    monkeypatch.setattr(Scenario, "_crash_somebody", lambda _: 1 / 0)
    for seed in range(4):
        assert "ZeroDivisionError" in str(run(seed).findings)
    assert {producer.state for producer in producers} == {ProducerState.CLOSED}


def test_a_loop_that_turns_without_end_is_found() -> None:
    loop = SimulatedLoop(lambda: 0.0)

    async def spin() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    try:
        with pytest.raises(Deadlock, match="spins"):
            loop.run_until_complete(spin())
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
    finally:
        loop.close()


@pytest.mark.parametrize("has_timers", [False, True])
def test_a_hang_is_found(has_timers: bool) -> None:
    """A hang is found even if timers come for ever, as they do in every producer."""
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


def caused_by(error: BaseException) -> KafkaError:
    wrapped = KafkaError("the partitioner failed")
    wrapped.__cause__ = error
    return wrapped


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
        ([sent(0, at(0, 0), refused=(TypeError,))], [b"0"], "was to be refused and is in the log"),
        ([sent(0, at(0, -1), refused=(TypeError,))], [b"0"], "was to be refused and is in the log"),
        (
            [sent(0, KafkaTimeoutError("late"), refused=(TypeError,))],
            [],
            "was to be refused with (<class 'TypeError'>,)",
        ),
        ([sent(0, ValueError("other"), refused=HARM)], [], "was to be refused with LookupError()"),
        ([sent(0, at(0, 0), chosen=1)], [b"0"], "is in partition 0; the partitioner said 1"),
        ([sent(0, at(0, 0), seconds=3.2)], [b"0"], "had its outcome after 3.200 s; the limit is 3.010 s"),
    ],
)
def test_the_checker_tells_each_broken_promise(records: list[Sent], log: list[bytes], finding: str) -> None:
    found = list(check_records(records, {0: log, 1: []}, OPTIONS))
    assert any(finding in each for each in found)
    assert len(found) == 1 or records[0].refused  # a record that should have been refused breaks more than one promise


def test_the_checker_takes_promised_histories() -> None:
    in_doubt = KafkaTimeoutError("late", outcome_unknown=True)
    records = [
        sent(0, at(0, 0)),
        sent(1, in_doubt),
        sent(2, in_doubt),
        sent(3, is_cancelled=True),
        sent(4, KafkaTimeoutError("refused")),
        sent(5, at(0, -1)),
        sent(6, TypeError("odd"), refused=(TypeError,)),
        sent(7, ProducerClosedError(), refused=(TypeError,)),
        sent(8, HARM, refused=HARM),
        sent(9, caused_by(HARM), refused=HARM),
        sent(10, refused=HARM, is_cancelled=True),
        sent(11, at(1, 0), chosen=1),
    ]
    assert list(check_records(records, {0: [b"0", b"1", b"3", b"5"], 1: [b"11"]}, OPTIONS)) == []


def test_headers_are_those_given() -> None:
    (found,) = check_headers([sent(0, headers=(("a", b""),)), sent(1)], {b"0": (), b"1": (("b", None),)})
    assert found == "record 0/0 has headers (), and was given (('a', b''),)"
    assert not list(check_headers([sent(0, headers=(("a", b""),))], {}))


def test_without_idempotence_a_record_may_be_repeated_but_not_lost() -> None:
    options = OPTIONS | {"enable_idempotence": False}
    assert list(check_records([sent(0, at(0, 1))], {0: [b"0", b"0"]}, options)) == []
    assert len(list(check_records([sent(0, at(0, 0))], {0: []}, options))) == 1
