"""Draining and health checks of a producer in a web service, for any framework.

Knows no framework: ``fastapi``, ``aiohttp`` and ``litestar`` adapt it to theirs.

Rules: liveness fails only for a state that a restart would cure, so an outage of Kafka never makes an orchestrator kill
the service; readiness asks a broker whether this instance can deliver now. The drain has a deadline, which should be
shorter than the orchestrator's time between SIGTERM and SIGKILL.

Events: ``kafka.drained`` (info; delivered), ``kafka.not_drained`` (warning; delivered, failed, not_accepted,
seconds), ``kafka.undelivered_written`` (warning; records, path), ``kafka.undelivered_lost`` (error; failed, path,
error).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import KafkaProducer
from ..errors import ConfigurationError, KafkaError
from ..observability import get_logger
from ..producer.given_config import as_model, make_config
from .undelivered import UndeliveredRecords, checked_path

if TYPE_CHECKING:
    from .. import ProducerConfig
    from ..producer.circuits.circuits import CircuitStatus
    from ..producer.options.keywords import ProducerKeywords
    from ..producer.statistics import BrokerHealth, ProducerStatistics

__all__ = ["DRAIN_TIMEOUT", "HAS_ONE", "checked_config", "drain", "keeping_undelivered", "liveness", "readiness"]

# Kubernetes waits 30 s by default; the framework needs some of it to finish the requests in flight.
DRAIN_TIMEOUT = 20.0

HAS_ONE = "the application has a producer, which this one would replace: use a KafkaProducer for another cluster"

# States from which a producer does not come back without a new process.
_DEAD = ("crashed", "forked")

_logger = get_logger(__name__)


def checked_config(
    bootstrap_servers: str | Sequence[str] | None, config: ProducerConfig | None, options: ProducerKeywords
) -> ProducerConfig:
    """The configuration of a service's producer, so that what is wrong with it fails before the service runs.

    Plain options stay without pydantic, whose models Python's garbage collector would walk in every full collection.
    """
    made = make_config(bootstrap_servers, config, {**options})
    KafkaProducer(config=made)
    return made


def keeping_undelivered(
    config: ProducerConfig, path: str | os.PathLike[str] | None
) -> tuple[ProducerConfig, UndeliveredRecords | None]:
    """The configuration of a producer whose undelivered records are written to ``path``, and the object that keeps them
    for ``drain``; None keeps nothing. Raises ConfigurationError for a path that cannot be written, and for a
    transactional producer: an uncommitted transaction was rolled back, and a part of it must not be sent later.
    """
    if path is None:
        return config, None
    if config.transactional_id is not None:
        raise ConfigurationError(
            "undelivered_path with transactional_id: a transaction that does not commit is rolled back, and its "
            "records must not be sent without the rest: leave undelivered_path out"
        )
    keeper = UndeliveredRecords(checked_path(path), config)
    # The last interceptor of the chain, so that it has the record as it is sent.
    return as_model(config).model_copy(update={"interceptors": (*config.interceptors, keeper)}), keeper


async def drain(
    producer: KafkaProducer[Any, Any], timeout: float | None, undelivered: UndeliveredRecords | None = None
) -> None:
    """Close the producer: accepted records are delivered within ``timeout`` seconds or failed, and the result is
    logged. Records that failed, or were never accepted, are written to the file of ``undelivered``, also when the call
    is cancelled, as by a second SIGTERM: then the producer closes at once.
    """
    if undelivered is not None:
        undelivered.begin_closing()
    before = producer.statistics()
    started = asyncio.get_running_loop().time()
    try:
        await producer.close(timeout)
    finally:
        _tell(before, producer.statistics(), asyncio.get_running_loop().time() - started)
        if undelivered is not None:
            await _write(undelivered)


def _tell(before: ProducerStatistics, after: ProducerStatistics, seconds: float) -> None:
    delivered, failed = after.delivered - before.delivered, after.failed - before.failed
    # Calls that waited in vain: the statistics do not count them as failed.
    not_accepted = max(0, before.waiters - (after.accepted - before.accepted))
    if failed or not_accepted:
        counts = {"delivered": delivered, "failed": failed, "not_accepted": not_accepted}
        _logger.warning("kafka.not_drained", **counts, seconds=round(seconds, 3))
    else:
        _logger.info("kafka.drained", delivered=delivered)


async def _write(undelivered: UndeliveredRecords) -> None:
    path = str(undelivered.path)
    try:
        written = await undelivered.write()
    except (OSError, asyncio.CancelledError) as error:
        problem = error.__cause__ if isinstance(error, asyncio.CancelledError) else error
        if isinstance(problem, OSError):
            _logger.error("kafka.undelivered_lost", failed=undelivered.missing, path=path, error=str(problem))
        if problem is not error:
            raise
        return
    if written:
        _logger.warning("kafka.undelivered_written", records=written, path=path)
    if written < undelivered.missing:
        lost, reason = undelivered.missing - written, "their serializers failed"
        _logger.error("kafka.undelivered_lost", failed=lost, path=path, error=reason)


def liveness(producer: KafkaProducer[Any, Any]) -> tuple[bool, dict[str, Any]]:
    """True if the process should be left alone, and the body that says why. No I/O."""
    state, problem = producer.state.value, producer.health.fatal_error
    is_alive = state not in _DEAD and problem is None
    body = {"status": "alive" if is_alive else "dead", "producer": state}
    return is_alive, body | ({} if problem is None else {"problem": problem})


async def readiness(producer: KafkaProducer[Any, Any], timeout: float) -> tuple[bool, dict[str, Any]]:
    """True if requests should be sent here, and the body that says why; answers within ``timeout`` seconds."""
    problem = None
    ping_ms = None
    try:
        ping_ms = round(await producer.ping(timeout) * 1000, 3)
    except KafkaError as error:
        problem = f"{type(error).__name__}: {error}"
    health = producer.health
    if problem is None and not health.is_healthy:
        problem = health.fatal_error or health.last_error or "records wait longer than request_timeout_ms"
    body = {
        "status": "not ready" if problem else "ready",
        "producer": health.state,
        "connected_brokers": health.connected_brokers,
        "known_brokers": health.known_brokers,
        "ping_ms": ping_ms,
        "oldest_record_age": round(health.oldest_record_age, 3),
        "buffered_fraction": round(health.buffered_fraction, 4),
        "brokers": [_broker(each) for each in health.brokers],
    }
    if health.open_circuits:
        body["open_circuits"] = [_circuit(each) for each in health.open_circuits]
    return problem is None, body | ({"problem": problem} if problem else {})


def _circuit(circuit: CircuitStatus) -> dict[str, object]:
    found: dict[str, object] = {"topic": circuit.topic, "state": circuit.state, "failures": circuit.failures}
    return found | {"open_for": round(circuit.open_for, 3), "last_error": circuit.last_error}


def _broker(broker: BrokerHealth) -> dict[str, object]:
    found: dict[str, object] = {"id": broker.node_id, "address": broker.address, "state": broker.state}
    if broker.retry_in:
        found["retry_in"] = round(broker.retry_in, 3)
    if broker.last_error:
        found["last_error"] = broker.last_error
    return found
