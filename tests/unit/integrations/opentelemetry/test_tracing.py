"""Spans of records that are sent and processed, with the SDK's exporter in memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from aiokafkapy import ConsumedRecord, KafkaProducer, ProducerRecord, errors
from aiokafkapy.broker import DevBroker
from aiokafkapy.integrations.opentelemetry import KafkaTracing
from aiokafkapy.protocol.api import ApiKey

PROPAGATOR = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
CUSTOM = ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")


class Exported:
    """A provider, and the spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.spans if span.name == name]
        return span


@pytest.fixture
def exported() -> Exported:
    return Exported()


def traced(broker: DevBroker, provider: Any, *others: Any, **options: Any) -> KafkaProducer[Any, Any]:
    tracing = KafkaTracing(provider, PROPAGATOR, client_id="web")
    return KafkaProducer(broker.bootstrap_servers, interceptors=[tracing, *others], **options)


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def told() -> None:
    """Outcomes are told in the turns of the loop after a send returned."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_sent_record_has_a_span_by_the_conventions_and_its_context_in_the_headers(
    kafka_broker: DevBroker, exported: Exported
) -> None:
    with exported.provider.get_tracer("t").start_as_current_span("request") as request:
        async with traced(kafka_broker, exported.provider) as producer:
            metadata = await producer.send("orders", b"tea", key=b"ann", headers=[("a", b"b")])
            await told()
    span = exported.named("send orders")
    assert span.kind is SpanKind.PRODUCER
    assert attributes_of(span) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.client.id": "web",
        "messaging.destination.partition.id": str(metadata.partition),
        "messaging.kafka.offset": 0,
        "messaging.kafka.message.key": "ann",
        "messaging.message.body.size": 3,
    }
    assert span.parent is not None
    assert span.parent.span_id == request.get_span_context().span_id
    assert span.status.status_code is StatusCode.UNSET
    assert span.context is not None
    (record,) = kafka_broker.records("orders", metadata.partition)
    before, (name, carried) = record.headers
    assert before == ("a", b"b")
    assert name == "traceparent"
    assert carried is not None
    assert carried.startswith(f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-0".encode())
    assert int(carried[-2:], 16) & 1, "sampled"


async def test_baggage_and_the_trace_s_state_go_along(kafka_broker: DevBroker, exported: Exported) -> None:
    incoming = TraceContextTextMapPropagator().extract({"traceparent": CUSTOM[1].decode(), "tracestate": "v=1"})
    token = context.attach(baggage.set_baggage("tenant", "blue", incoming))
    try:
        async with traced(kafka_broker, exported.provider) as producer:
            await producer.send("t", b"v", partition=0)
            await told()
    finally:
        context.detach(token)
    headers = dict(kafka_broker.records("t", 0)[0].headers)
    assert headers["tracestate"] == b"v=1"
    assert headers["baggage"] == b"tenant=blue"
    assert (headers["traceparent"] or b"").startswith(CUSTOM[1][:35])


async def test_a_record_that_fails_is_an_error_of_its_span(kafka_broker: DevBroker, exported: Exported) -> None:
    async with traced(kafka_broker, exported.provider) as producer:
        kafka_broker.controls.fail_next(ApiKey.PRODUCE, errors.RecordTooLargeError)
        with pytest.raises(errors.RecordTooLargeError):
            await producer.send("t", None, key=b"\xff")
        await told()
    span = exported.named("send t")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes_of(span)["error.type"] == "RecordTooLargeError"
    assert attributes_of(span)["messaging.kafka.message.tombstone"] is True
    assert "messaging.kafka.message.key" not in attributes_of(span), "no text"
    assert [event.name for event in span.events] == ["exception"]


async def test_a_serializer_s_error_tells_nothing_of_the_value(kafka_broker: DevBroker, exported: Exported) -> None:
    def serializer(value: str) -> bytes:
        raise UnicodeError(f"cannot write {value}")

    async with traced(kafka_broker, exported.provider, value_serializer=serializer) as producer:
        with pytest.raises(errors.SerializationError, match="card 4111"):
            await producer.send("t", "card 4111")
        await told()
    span = exported.named("send t")
    (event,) = span.events
    assert "4111" not in span.to_json()
    text = "A key, value, header or request could not be turned into bytes. (builtins.UnicodeError)"
    assert span.status.description == text
    assert event.attributes is not None
    assert event.attributes["exception.message"] == span.status.description
    assert "in serializer" in str(event.attributes["exception.stacktrace"])


async def test_a_refused_record_and_one_that_was_taken_back_end_their_spans_too(
    kafka_broker: DevBroker, exported: Exported
) -> None:
    async with traced(kafka_broker, exported.provider, max_block_ms=60_000) as producer:
        with pytest.raises(errors.SerializationError):
            await producer.send("t", 5)
        kafka_broker.controls.stall_connections(True)
        waiting = asyncio.ensure_future(producer.send("unknown", b"v"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await told()
        kafka_broker.controls.stall_connections(False)
    assert attributes_of(exported.named("send t"))["error.type"] == "SerializationError"
    assert attributes_of(exported.named("send unknown"))["error.type"] == "CancelledError"


async def test_a_span_ends_when_the_outcome_is_known_and_not_before(
    kafka_broker: DevBroker, exported: Exported
) -> None:
    async with traced(kafka_broker, exported.provider, linger_ms=60_000) as producer:
        delivery = await producer.enqueue("t", b"v")
        assert exported.spans == []
        await producer.flush()
        await delivery
        await told()
        assert len(exported.spans) == 1


async def test_a_context_of_the_caller_s_own_is_kept_and_linked_to(kafka_broker: DevBroker, exported: Exported) -> None:
    async with traced(kafka_broker, exported.provider) as producer:
        await producer.send("t", b"v", partition=0, headers=[CUSTOM])
        await told()
    assert list(kafka_broker.records("t", 0)[0].headers) == [CUSTOM]
    (link,) = exported.named("send t").links
    assert f"{link.context.span_id:016x}" == "00f067aa0ba902b7"


@pytest.mark.parametrize("provider", [None, NoOpTracerProvider(), TracerProvider(ALWAYS_OFF, shutdown_on_exit=False)])
def test_where_nothing_records_nothing_is_made(provider: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tracing = KafkaTracing(provider, PROPAGATOR)
    monkeypatch.setattr(tracing, "_describe", lambda *_: pytest.fail("attributes were made"))
    record = ProducerRecord("t", b"v", headers=[("a", b"b")])
    changed, outcome = tracing.track(record)
    assert outcome is None
    if isinstance(provider, TracerProvider):
        carried = dict(changed.headers or ())["traceparent"] or b""
        assert not int(carried[-2:], 16) & 1, "so that no receiver samples the trace anew"
    else:
        assert changed is record


def test_the_trace_around_the_call_is_carried_also_where_nothing_records() -> None:
    around = TraceContextTextMapPropagator().extract({"traceparent": CUSTOM[1].decode()})
    token = context.attach(around)
    try:
        changed, outcome = KafkaTracing(NoOpTracerProvider(), PROPAGATOR).track(ProducerRecord("t"))
    finally:
        context.detach(token)
    assert changed.headers == (CUSTOM,)
    assert outcome is None


def test_an_unsampled_record_costs_a_few_calls_and_no_more() -> None:
    """Calls are counted: the cost is the tracer's own look at the context."""
    tracing = KafkaTracing(NoOpTracerProvider(), PROPAGATOR)
    record = ProducerRecord("t", b"v", b"k")
    tracing.track(record)
    calls: list[str] = []
    profiled = sys.getprofile()
    sys.setprofile(lambda frame, event, arg: calls.append(event) if event in ("call", "c_call") else None)
    try:
        tracing.track(record)
    finally:
        sys.setprofile(profiled)
    assert len(calls) < 60


async def test_send_many_is_one_span_linked_to_one_of_each_record(kafka_broker: DevBroker, exported: Exported) -> None:
    tracing = KafkaTracing(exported.provider, PROPAGATOR)
    kafka_broker.create_topic("t", partitions=1)
    async with KafkaProducer(kafka_broker.bootstrap_servers, interceptors=[tracing]) as producer:
        await tracing.send_many(producer, "t", [b"a", b"b", b"c"])
        await told()
        await producer.send("t", b"d")
        await told()
    created = [span for span in exported.spans if span.name == "create t"]
    batch, alone = [span for span in exported.spans if span.name == "send t"]
    assert batch.kind is SpanKind.CLIENT
    assert attributes_of(batch)["messaging.batch.message_count"] == 3
    assert {link.context.span_id for link in batch.links} == {span.context.span_id for span in created if span.context}
    assert {span.kind for span in created} == {SpanKind.PRODUCER}
    assert {attributes_of(span)["messaging.operation.type"] for span in created} == {"create"}
    assert sorted(attributes_of(span)["messaging.kafka.offset"] for span in created) == [0, 1, 2]
    assert alone.links == ()
    assert all(dict(record.headers)["traceparent"] for record in kafka_broker.records("t", 0))


@pytest.mark.parametrize("return_exceptions", [True, False])
async def test_a_record_of_many_that_fails_is_the_batch_s_error(
    kafka_broker: DevBroker, exported: Exported, return_exceptions: bool
) -> None:
    tracing = KafkaTracing(exported.provider, PROPAGATOR)
    values: list[Any] = [b"a", 5]
    async with KafkaProducer(kafka_broker.bootstrap_servers, interceptors=[tracing]) as producer:
        try:
            await tracing.send_many(producer, "t", values, return_exceptions=return_exceptions)
        except errors.SerializationError:
            assert not return_exceptions
        await told()
    assert attributes_of(exported.named("send t"))["error.type"] == "SerializationError"


class ConfluentMessage:
    """A stand-in for ``confluent_kafka.Message``, whose attributes are methods."""

    def __init__(self, record: ConsumedRecord) -> None:
        self._record = record

    def __getattr__(self, name: str) -> Any:
        return lambda: getattr(self._record, name)


@pytest.mark.parametrize("form", [lambda record: record, ConfluentMessage])
def test_a_processed_record_is_in_the_trace_that_it_was_sent_in(exported: Exported, form: Any) -> None:
    tracing = KafkaTracing(exported.provider, PROPAGATOR)
    headers = [CUSTOM, ("baggage", b"tenant=blue"), ("binary", b"\xff"), ("none", None)]
    record = ConsumedRecord(7, b"ann", b"tea", headers, topic="orders", partition=2)
    with tracing.process(form(record), group="shop") as span:
        assert trace.get_current_span() is span
        assert baggage.get_baggage("tenant") == "blue"
    assert baggage.get_baggage("tenant") is None
    ended = exported.named("process orders")
    assert ended.kind is SpanKind.CONSUMER
    assert attributes_of(ended) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "2",
        "messaging.kafka.offset": 7,
        "messaging.kafka.message.key": "ann",
        "messaging.consumer.group.name": "shop",
    }
    assert ended.parent is not None
    assert f"{ended.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert [link.context.span_id for link in ended.links] == [ended.parent.span_id]


def test_a_new_trace_and_several_records_link_only(exported: Exported) -> None:
    tracing = KafkaTracing(exported.provider, PROPAGATOR)
    record = ConsumedRecord(7, None, None, [CUSTOM], topic="orders", partition=2)
    with tracing.process(record, new_trace=True):
        pass
    with tracing.process([record, record._replace(headers=())]):
        pass
    single, several = exported.spans
    assert single.parent is several.parent is None
    assert len(single.links) == len(several.links) == 1
    assert attributes_of(single)["messaging.kafka.message.tombstone"] is True
    assert attributes_of(several)["messaging.batch.message_count"] == 2


@pytest.mark.parametrize("error", [LookupError("no"), asyncio.CancelledError()])
def test_an_exception_of_processing_is_the_span_s_error_and_is_raised(exported: Exported, error: BaseException) -> None:
    tracing = KafkaTracing(exported.provider, PROPAGATOR)
    record = ConsumedRecord(7, None, b"v", (), topic="orders", partition=2)
    with pytest.raises(type(error)), tracing.process(record):
        raise error
    span = exported.named("process orders")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes_of(span)["error.type"] == type(error).__name__


def test_a_secret_key_is_left_out(exported: Exported) -> None:
    tracing = KafkaTracing(exported.provider, PROPAGATOR, with_keys=False)
    _, outcome = tracing.track(ProducerRecord("t", b"v", b"secret"))
    assert outcome is not None
    outcome(None, None)
    assert "messaging.kafka.message.key" not in attributes_of(exported.named("send t"))


def test_a_missing_library_is_named_with_its_extra() -> None:
    program = (
        "import sys; sys.modules['opentelemetry.trace'] = None\n"
        "try:\n    import aiokafkapy.integrations.opentelemetry\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'aiokafkapy[opentelemetry]'" in done.stdout
