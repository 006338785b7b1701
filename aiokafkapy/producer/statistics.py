"""The results of ``producer.statistics()`` and ``producer.health``: plain snapshots, made when asked for.

The classes do not know the sources of the numbers; the functions read them from the parts, without I/O. Java has no
counterpart but ``metrics()``; trio's ``statistics()`` is the model.

Rule: ``accepted = delivered + failed + pending`` in every snapshot; all durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..client.transport.connection_counts import connection_metrics
from ..client.transport.traffic_counts import traffic_metrics
from ..common import Node
from ..errors import KafkaError
from .state import ProducerState

if TYPE_CHECKING:
    from ..client.network_client import NetworkClient
    from ..protocol.otlp import MetricPoint
    from .circuits.circuits import CircuitStatus
    from .codecs.codec_chooser import CodecChoice
    from .limits.topic_limits import TopicLimits
    from .observation.application_metrics import Registered
    from .runtime import ProducerRuntime

__all__ = [
    "BrokerHealth",
    "ProducerHealth",
    "ProducerStatistics",
    "health_of",
    "metrics_of",
    "node_metrics_of",
    "statistics_of",
    "telemetry_of",
    "topic_metrics_of",
]


@dataclass(frozen=True, slots=True)
class ProducerStatistics:
    """The producer at one moment."""

    accepted: int = 0
    """Records that were appended, since the start."""
    delivered: int = 0
    """Records that a broker has (with ``acks=0``: that were handed to the network)."""
    failed: int = 0
    """Records that were accepted and then failed."""
    dropped: int = 0
    """Records that ``overflow`` dropped because the buffer was full, accepted ones (also in ``failed``) and others."""
    pending: int = 0
    """Records without an outcome yet."""
    waiters: int = 0
    """Calls that wait for their record to be accepted: for metadata, an async serializer, or room."""
    buffered_bytes: int = 0
    """Bytes of ``buffer_memory`` in use."""
    buffer_memory: int = 0
    buffer_records: int | None = None
    """The bound in records; ``pending`` of them are in use; None without one."""
    batches: int = 0
    """Batches without an outcome, those in flight included."""
    nodes: tuple[Node, ...] = ()
    """The brokers that metadata names."""
    connected_nodes: tuple[int, ...] = ()
    """The ids of the brokers that have a connection."""
    in_flight: Mapping[int, int] = field(default_factory=dict)
    """Requests in flight by node id."""
    in_flight_limits: Mapping[int, int] = field(default_factory=dict)
    """The limit of Produce requests of each node, by its id, with ``max_in_flight_requests_per_connection`` auto."""
    in_flight_batches: int = 0
    """Batches in a Produce request that has no answer yet."""
    loop_lag: float = 0.0
    """The longest time, over the last 30 to 60 seconds, from waking the Sender to its running."""
    wake_ups: int = 0
    """The number of passes of the Sender."""
    producer_id: int = -1
    producer_epoch: int = -1
    spooled: int = 0
    """Records that went to the spool, since the start. In the counts above they are accepted when they leave it, and
    failed when an attempt to send them fails, which is repeated.
    """
    spool_records: int = 0
    """Records in the spool now, those of an earlier process included; they stay there over ``close()``."""
    spool_bytes: int = 0
    """Bytes of the spool, of ``spool_max_bytes``; sent records give their room back file by file."""
    spool_replayed: int = 0
    """Records that were delivered out of the spool."""
    spool_repeated: int = 0
    """Records that were sent out of the spool again though a broker may have had them: after a crash, or when an
    attempt's outcome was unknown.
    """
    spool_refused: int = 0
    """Spooled records that brokers refused, now in the spool's ``refused.jsonl``."""
    topic_limits: Mapping[str, TopicLimits] = field(default_factory=dict)
    """The limits of topics, as far as they were read; empty without the option ``topic_limits``."""
    codecs: Mapping[str, CodecChoice] = field(default_factory=dict)
    """The codec that was chosen for each topic, and the reason; empty without ``compression_type="auto"``."""
    circuits: tuple[CircuitStatus, ...] = ()
    """The circuits with failures, by topic; empty without the option ``circuit_breaker``, and when all is well."""
    circuit_openings: int = 0
    """The number of times that a circuit has opened."""


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """The state of the producer's connection to one broker."""

    node_id: int
    address: str
    """``host:port``, an IPv6 host in brackets."""
    state: str
    """``connected``, ``connecting``, ``backing off`` after a failure, ``refused`` us at authentication, or ``idle``: no
    connection, and none is needed.
    """
    retry_in: float = 0.0
    """Seconds of the back-off, or of throttling by the broker, that are left."""
    last_error: str | None = None
    """The error of the last connection or attempt, until the next can be used."""


@dataclass(frozen=True, slots=True)
class ProducerHealth:
    """Tells whether the producer can do its work; cheap enough for a readiness probe."""

    is_healthy: bool
    """Started, the Sender lives, brokers can be reached, no record waits longer than ``request_timeout_ms``, the spool
    can be read, and there is no ``fatal_error``.
    """
    state: str
    """``new``, ``starting``, ``running``, ``closing``, ``closed``, ``crashed`` or ``forked``."""
    connected_brokers: int = 0
    known_brokers: int = 0
    seconds_since_success: float | None = None
    """Seconds since the last batch was delivered; None before the first."""
    oldest_record_age: float = 0.0
    """Seconds that the oldest record without an outcome has waited; 0 without one."""
    buffered_fraction: float = 0.0
    """The used part of ``buffer_memory``, or of ``buffer_records``, 0 to 1."""
    last_error: str | None = None
    """The last error of metadata, the producer id, the spool's disk, or a batch, if no success has followed."""
    is_spooling: bool = False
    """True while records are in the spool, and newer ones of their topics go there too."""
    brokers: tuple[BrokerHealth, ...] = ()
    """The brokers that metadata names, by id."""
    open_circuits: tuple[CircuitStatus, ...] = ()
    """The circuits that are not closed, by topic; see ``circuit_breaker``. One for all topics makes it unhealthy."""
    fatal_error: str | None = None
    """The error after which a transactional producer can only be closed, for example because it was fenced."""


def statistics_of(runtime: ProducerRuntime | None) -> ProducerStatistics:
    """The statistics of a producer; ``runtime`` None: it was never started."""
    if runtime is None:
        return ProducerStatistics()
    accumulator = runtime.accumulator
    manager = runtime.transaction_manager
    nodes = runtime.metadata.cluster.nodes
    now, optional = runtime.now(), runtime.optional
    return ProducerStatistics(
        accepted=accumulator.accepted,
        delivered=accumulator.delivered,
        failed=accumulator.failed,
        dropped=runtime.overflow.dropped,
        pending=accumulator.pending,
        waiters=runtime.admission.waiting,
        buffered_bytes=accumulator.buffered_bytes,
        buffer_memory=runtime.config.buffer_memory,
        buffer_records=runtime.config.buffer_records,
        batches=accumulator.batch_count,
        nodes=nodes,
        connected_nodes=tuple(
            node.node_id for node in nodes if runtime.client.nodes.is_connection_ready(node.node_id, now)
        ),
        in_flight={node.node_id: runtime.client.nodes.in_flight_count(node.node_id) for node in nodes},
        in_flight_limits=runtime.sender.in_flight_limits(),
        in_flight_batches=len(runtime.sender.in_flight_batches),
        loop_lag=runtime.metrics.longest_loop_lag(now),
        wake_ups=runtime.metrics.wake_ups,
        producer_id=manager.producer_id_and_epoch.producer_id if manager is not None else -1,
        producer_epoch=manager.producer_id_and_epoch.epoch if manager is not None else -1,
        codecs={} if optional is None or optional.codecs is None else optional.codecs.choices(),
        circuits=() if runtime.circuits is None else runtime.circuits.statuses(now),
        circuit_openings=0 if runtime.circuits is None else runtime.circuits.openings,
        topic_limits={} if optional is None or optional.limits is None else optional.limits.known(),
        **({} if runtime.spooling is None else runtime.spooling.statistics()._asdict()),
    )


def metrics_of(runtime: ProducerRuntime | None) -> dict[str, float]:
    """Kafka's metric names and their values; empty for a producer that was never started."""
    if runtime is None:
        return {}
    accumulator = runtime.accumulator
    now = runtime.now()
    found = runtime.metrics.snapshot(now)
    clients = (
        [runtime.client]
        if runtime.transaction_requests is None
        else [runtime.client, runtime.transaction_requests.client]
    )
    found.update(
        {
            "record-error-total": accumulator.failed,
            "record-drop-total": runtime.overflow.dropped,
            "records-accepted-total": accumulator.accepted,
            "records-delivered-total": accumulator.delivered,
            "buffer-total-bytes": runtime.config.buffer_memory,
            "buffer-available-bytes": accumulator.available_bytes,
            "waiting-threads": runtime.admission.waiting,
            "requests-in-flight": runtime.client.nodes.in_flight_count(),
            "observer-error-total": runtime.observation.observers.failures,
            "metadata-age": max(0.0, now - runtime.metadata.last_successful_refresh),
            **runtime.calls.snapshot(now),
            **connection_metrics([client.connection_counts for client in clients], now),
            **_traffic_of(clients, now),
        }
    )
    spool = ProducerStatistics() if runtime.spooling is None else runtime.spooling.statistics()
    found.update(
        {
            "record-spool-total": spool.spooled,
            "record-spool-replay-total": spool.spool_replayed,
            "record-spool-refuse-total": spool.spool_refused,
            "spool-records": spool.spool_records,
            "spool-bytes": spool.spool_bytes,
        }
    )
    return found


def _traffic_of(clients: Sequence[NetworkClient], now: float) -> dict[str, float]:
    found = traffic_metrics([client.traffic.counts for client in clients], now)
    for kind in ("rate", "total"):
        found[f"network-io-{kind}"] = found[f"request-{kind}"] + found[f"response-{kind}"]
    return found


def node_metrics_of(runtime: ProducerRuntime | None) -> dict[int, dict[str, float]]:
    """Kafka's metrics of each node; empty unless ``metrics_per_node`` is set."""
    traffic = None if runtime is None else runtime.observation.node_traffic
    if traffic is None or runtime is None:
        return {}
    found, limits = traffic.snapshot(runtime.now()), runtime.sender.in_flight_limits()
    for node_id in found.keys() & limits.keys():
        found[node_id]["requests-in-flight-limit"] = limits[node_id]
    return found


def topic_metrics_of(runtime: ProducerRuntime | None) -> dict[str, dict[str, float]]:
    """Kafka's metrics of each topic; empty unless ``metrics_topics_max`` is set."""
    metrics = None if runtime is None else runtime.observation.topic_metrics
    return {} if metrics is None or runtime is None else metrics.snapshot(runtime.now())


def telemetry_of(registered: Registered, runtime: ProducerRuntime) -> list[MetricPoint]:
    """All metrics, as they are pushed to brokers, the ``registered`` ones of the application included."""
    from .observation.telemetry_metrics import telemetry_points

    points = telemetry_points(metrics_of(runtime), node_metrics_of(runtime), topic_metrics_of(runtime))
    if registered:
        from .observation.application_metrics import application_points

        points.extend(application_points(registered))
    return points


def health_of(state: ProducerState, runtime: ProducerRuntime | None) -> ProducerHealth:
    """The health of a producer in ``state``."""
    if runtime is None:
        return ProducerHealth(is_healthy=False, state=state.value)
    now = runtime.now()
    nodes = runtime.metadata.cluster.nodes
    connected = sum(runtime.client.nodes.is_connection_ready(node.node_id, now) for node in nodes)
    oldest = max((now - batch.created for batch in runtime.accumulator.incomplete), default=0.0)
    last_success = runtime.metrics.last_success
    is_running = state is ProducerState.RUNNING
    # Idle connections are closed; only an update that is wanted and does not come says that something is wrong.
    is_quiet = runtime.metadata.last_failure is None and not runtime.metadata.is_update_requested
    statuses = () if runtime.circuits is None else runtime.circuits.statuses(now)
    circuits = tuple(status for status in statuses if status.state != "closed")
    fatal_error = None if runtime.transaction is None else runtime.transaction.fatal_error
    spooling = runtime.spooling
    has_failed = fatal_error is not None or (spooling is not None and spooling.error is not None)
    is_on_time = oldest < runtime.config.request_timeout_ms / 1000 and all(one.topic is not None for one in circuits)
    return ProducerHealth(
        is_healthy=is_running and (connected > 0 or is_quiet) and is_on_time and not has_failed,
        state=state.value,
        connected_brokers=connected,
        known_brokers=0 if runtime.metadata.cluster.is_bootstrap else len(nodes),
        seconds_since_success=None if last_success is None else now - last_success,
        oldest_record_age=oldest,
        buffered_fraction=_buffered_fraction(runtime),
        last_error=_last_error(runtime),
        is_spooling=spooling is not None and spooling.statistics().spool_records > 0,
        brokers=_brokers(runtime, now),
        open_circuits=circuits,
        fatal_error=None if fatal_error is None else str(fatal_error),
    )


def _brokers(runtime: ProducerRuntime, now: float) -> tuple[BrokerHealth, ...]:
    cluster = runtime.metadata.cluster
    return () if cluster.is_bootstrap else tuple(_broker(runtime, node, now) for node in sorted(cluster.nodes))


def _broker(runtime: ProducerRuntime, node: Node, now: float) -> BrokerHealth:
    nodes = runtime.client.nodes
    state = nodes.states.get(node.node_id)
    address = node.address
    if state is None:
        return BrokerHealth(node.node_id, address, "idle")
    if not state.is_disconnected:
        name = "connecting" if nodes.is_preparing_connection(node.node_id) else "connected"
        return BrokerHealth(node.node_id, address, name, nodes.throttle_delay(node.node_id, now), state.last_error)
    if state.authentication_error is not None:
        name = "refused"
    else:
        name = "backing off" if state.last_error is not None else "idle"
    retry_in = 0.0 if name == "idle" else max(0.0, state.retry_at - now)
    return BrokerHealth(node.node_id, address, name, retry_in, state.last_error)


def _buffered_fraction(runtime: ProducerRuntime) -> float:
    """The used part of the buffer, 0 to 1."""
    accumulator, config = runtime.accumulator, runtime.config
    records = accumulator.pending / config.buffer_records if config.buffer_records else 0.0
    return min(1.0, max(accumulator.buffered_bytes / config.buffer_memory, records))


def _last_error(runtime: ProducerRuntime) -> str | None:
    if runtime.crash is not None:
        return str(runtime.crash)
    manager = runtime.transaction_manager
    errors: list[KafkaError | str | None] = [
        None if runtime.transaction is None else runtime.transaction.fatal_error,
        manager.last_error if manager is not None else None,
        runtime.metadata.last_failure,
        None if runtime.spooling is None else runtime.spooling.error,
        *runtime.sender.in_flight_batches.last_errors.values(),
    ]
    if runtime.circuits is not None:
        errors += [status.last_error for status in runtime.circuits.statuses(runtime.now())]
    return next((str(error) for error in errors if error is not None), None)
