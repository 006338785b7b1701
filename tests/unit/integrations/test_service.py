"""The common part of the web integrations, with a stand-in for the producer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import ProducerConfig, ProducerHealth, ProducerStatistics
from aiokafkapy.errors import ConfigurationError, KafkaTimeoutError
from aiokafkapy.integrations import service
from aiokafkapy.producer.state import ProducerState
from aiokafkapy.producer.statistics import BrokerHealth


class PretendedProducer:
    def __init__(self, **health: Any) -> None:
        self.state = ProducerState.RUNNING
        self.health = ProducerHealth(**{"is_healthy": True, "state": "running", **health})
        self.answers_ping: float | Exception = 0.0015
        self.pinged_for: float | None = None
        self.counts = [ProducerStatistics(delivered=10, failed=1, pending=5)]
        self.closed_within: float | None = None
        self.is_cancelled_at_close = False

    async def ping(self, timeout: float) -> float:
        self.pinged_for = timeout
        if isinstance(self.answers_ping, Exception):
            raise self.answers_ping
        return self.answers_ping

    def statistics(self) -> ProducerStatistics:
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]

    async def close(self, timeout: float | None) -> None:
        self.closed_within = timeout
        if self.is_cancelled_at_close:
            raise asyncio.CancelledError


class Events(list[tuple[str, str, dict[str, Any]]]):
    """Takes the place of the logger."""

    def info(self, event: str, **fields: Any) -> None:
        self.append(("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        self.append(("warning", event, fields))

    def error(self, event: str, **fields: Any) -> None:
        self.append(("error", event, fields))


@pytest.mark.parametrize("state", ["new", "starting", "running", "closing", "closed"])
def test_an_outage_or_an_ordinary_state_is_not_a_reason_to_restart(state: str) -> None:
    producer = PretendedProducer(is_healthy=False)
    producer.state = ProducerState(state)
    assert service.liveness(producer) == (True, {"status": "alive", "producer": state})  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["crashed", "forked"])
def test_a_state_that_only_a_restart_cures_is_dead(state: str) -> None:
    producer = PretendedProducer()
    producer.state = ProducerState(state)
    assert service.liveness(producer) == (False, {"status": "dead", "producer": state})  # type: ignore[arg-type]


async def test_a_fenced_producer_is_dead_and_not_ready() -> None:
    producer = PretendedProducer(is_healthy=False, fatal_error="fenced", last_error="other")
    assert service.liveness(producer) == (  # type: ignore[arg-type]
        False,
        {"status": "dead", "producer": "running", "problem": "fenced"},
    )
    is_ready, body = await service.readiness(producer, 1.5)  # type: ignore[arg-type]
    assert (is_ready, body["problem"]) == (False, "fenced")


async def test_ready_says_how_long_the_broker_took() -> None:
    producer = PretendedProducer(connected_brokers=2, known_brokers=3, oldest_record_age=0.25, buffered_fraction=0.5)
    is_ready, body = await service.readiness(producer, 1.5)  # type: ignore[arg-type]
    assert is_ready
    assert producer.pinged_for == 1.5
    assert body == {
        "status": "ready",
        "producer": "running",
        "connected_brokers": 2,
        "known_brokers": 3,
        "ping_ms": 1.5,
        "oldest_record_age": 0.25,
        "buffered_fraction": 0.5,
        "brokers": [],
    }


async def test_the_body_says_of_each_broker_how_it_stands() -> None:
    brokers = (
        BrokerHealth(0, "a:1", "connected"),
        BrokerHealth(1, "b:1", "backing off", 0.12345, "refused by the host"),
    )
    _, body = await service.readiness(PretendedProducer(brokers=brokers), 1.5)  # type: ignore[arg-type]
    assert body["brokers"] == [
        {"id": 0, "address": "a:1", "state": "connected"},
        {"id": 1, "address": "b:1", "state": "backing off", "retry_in": 0.123, "last_error": "refused by the host"},
    ]


async def test_a_broker_that_does_not_answer_is_the_reason_for_not_ready() -> None:
    producer = PretendedProducer()
    producer.answers_ping = KafkaTimeoutError("no answer in 1.5 s")
    is_ready, body = await service.readiness(producer, 1.5)  # type: ignore[arg-type]
    assert not is_ready
    assert (body["status"], body["ping_ms"]) == ("not ready", None)
    assert body["problem"] == "KafkaTimeoutError: no answer in 1.5 s"


@pytest.mark.parametrize(
    ("last_error", "problem"),
    [("NotEnoughReplicasError: t-0", "NotEnoughReplicasError: t-0"), (None, "records wait longer")],
)
async def test_records_that_wait_too_long_are_a_reason_too(last_error: str | None, problem: str) -> None:
    producer = PretendedProducer(is_healthy=False, last_error=last_error)
    is_ready, body = await service.readiness(producer, 1.5)  # type: ignore[arg-type]
    assert not is_ready
    assert body["problem"].startswith(problem)


async def test_the_drain_reports_delivered_records(monkeypatch: pytest.MonkeyPatch) -> None:
    events = Events()
    monkeypatch.setattr(service, "_logger", events)
    producer = PretendedProducer()
    producer.counts = [ProducerStatistics(delivered=10, failed=1), ProducerStatistics(delivered=15, failed=1)]
    await service.drain(producer, 7.5)  # type: ignore[arg-type]
    assert producer.closed_within == 7.5
    assert events == [("info", "kafka.drained", {"delivered": 5})]


class Written:
    """Takes the place of the object that keeps records."""

    path = Path("/data/undelivered.jsonl")

    def __init__(self, outcome: int | OSError, missing: int = 3) -> None:
        self.outcome = outcome
        self.missing = missing
        self.is_closing = False

    def begin_closing(self) -> None:
        self.is_closing = True

    async def write(self) -> int:
        if isinstance(self.outcome, OSError):
            raise self.outcome
        return self.outcome


LOST, WRITTEN = "kafka.undelivered_lost", "kafka.undelivered_written"


@pytest.mark.parametrize(
    ("outcome", "missing", "said"),
    [
        (3, 3, [("warning", WRITTEN, 3)]),
        (5, 5, [("warning", WRITTEN, 5)]),  # two were not even accepted
        (2, 3, [("warning", WRITTEN, 2), ("error", LOST, 1)]),
        (4, 5, [("warning", WRITTEN, 4), ("error", LOST, 1)]),
        (OSError(28, "No space left on device"), 5, [("error", LOST, 5)]),
    ],
)
async def test_undelivered_records_are_written_and_the_result_is_reported(
    outcome: int | OSError, missing: int, said: list[tuple[str, str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = Events()
    monkeypatch.setattr(service, "_logger", events)
    producer = PretendedProducer()
    producer.counts = [ProducerStatistics(delivered=10, failed=1), ProducerStatistics(delivered=12, failed=4)]
    written = Written(outcome, missing)
    await service.drain(producer, 1.0, written)  # type: ignore[arg-type]
    assert written.is_closing
    counted = [(level, event, fields.get("records") or fields.get("failed")) for level, event, fields in events[1:]]
    assert counted == said
    assert all(fields["path"] == str(Written.path) for _, _, fields in events[1:])


def test_without_a_path_nothing_is_kept() -> None:
    config = ProducerConfig(bootstrap_servers="h:1")
    assert service.keeping_undelivered(config, None) == (config, None)


def test_the_interceptor_that_keeps_records_is_the_last_one(tmp_path: Path) -> None:
    mine = object()
    config = ProducerConfig(bootstrap_servers="h:1", interceptors=[mine])
    changed, keeper = service.keeping_undelivered(config, tmp_path / "file")
    assert list(changed.interceptors) == [mine, keeper]
    assert list(config.interceptors) == [mine]


def test_records_of_a_transaction_are_not_kept(tmp_path: Path) -> None:
    config = ProducerConfig(bootstrap_servers="h:1", transactional_id="x")
    assert service.keeping_undelivered(config, None) == (config, None)
    with pytest.raises(ConfigurationError, match="rolled back"):
        service.keeping_undelivered(config, tmp_path / "file")


async def test_the_drain_warns_of_records_that_were_not(monkeypatch: pytest.MonkeyPatch) -> None:
    events = Events()
    monkeypatch.setattr(service, "_logger", events)
    producer = PretendedProducer()
    producer.counts = [ProducerStatistics(delivered=10, failed=1), ProducerStatistics(delivered=12, failed=4)]
    await service.drain(producer, None)  # type: ignore[arg-type]
    ((level, event, fields),) = events
    assert (level, event) == ("warning", "kafka.not_drained")
    assert (fields["delivered"], fields["failed"], fields["not_accepted"]) == (2, 3, 0)


async def test_records_that_still_waited_to_be_accepted_are_not_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    events = Events()
    monkeypatch.setattr(service, "_logger", events)
    producer = PretendedProducer()
    producer.counts = [
        ProducerStatistics(accepted=10, delivered=10, waiters=5),
        ProducerStatistics(accepted=12, delivered=12),
    ]
    await service.drain(producer, None)  # type: ignore[arg-type]
    ((_, event, fields),) = events
    assert event == "kafka.not_drained"
    assert (fields["delivered"], fields["failed"], fields["not_accepted"]) == (2, 0, 3)


async def test_a_drain_that_is_cancelled_tells_and_writes_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    events = Events()
    monkeypatch.setattr(service, "_logger", events)
    producer = PretendedProducer()
    producer.is_cancelled_at_close = True
    producer.counts = [ProducerStatistics(delivered=10, failed=1), ProducerStatistics(delivered=12, failed=4)]
    with pytest.raises(asyncio.CancelledError):
        await service.drain(producer, 1.0, Written(3))  # type: ignore[arg-type]
    assert [event for _, event, _ in events] == ["kafka.not_drained", WRITTEN]
