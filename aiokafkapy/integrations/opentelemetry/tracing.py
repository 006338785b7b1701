"""``KafkaTracing``: spans for records that are sent and processed, and the trace's context in their headers.

    tracing = KafkaTracing()
    producer = KafkaProducer("kafka:9092", interceptors=[tracing])
    await producer.send("orders", b"...")                    # span "send orders", ends with the record's outcome
    await tracing.send_many(producer, "orders", values)      # span "send orders", linked to a "create" for each record

    async for record in consumer:                            # aiokafka's, confluent-kafka's, or our PartitionReader's
        with tracing.process(record):                        # span "process orders", in the sender's trace
            ...

Owns names, kinds, attributes and links of spans, by the semantic conventions for messaging spans and for Kafka. Its
counterpart is OpenTelemetry's own ``TracingProducerInterceptor`` for Java.

Rules: a span of a record ends once, with its outcome: the record's place, or the error; a record that its caller took
back counts as an error, for it was not sent. If spans are not recorded, neither attributes nor callbacks are made:
only the context of the trace around the call, if any, is carried. A record that already carries a context keeps it,
and its span links to it. A key is an attribute if it is text, up to ``LONGEST_KEY`` characters; values never are, nor
the text of a serializer's error, which may quote them.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, overload

from opentelemetry import baggage, context, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider

from ... import KafkaProducer, ProducerRecord, RecordMetadata, __version__
from ...errors.local import foreign_cause, text_without_data
from ...producer.records import CallOverflow
from .conventions import (
    BODY_SIZE,
    CLIENT_ID,
    COUNT,
    DESTINATION,
    ERROR_TYPE,
    GROUP,
    KEY,
    OFFSET,
    OPERATION_NAME,
    OPERATION_TYPE,
    PARTITION,
    SCHEMA_URL,
    SYSTEM,
    TOMBSTONE,
)
from .propagation import ContextInHeaders, with_headers

__all__ = ["LONGEST_KEY", "KafkaTracing"]

LONGEST_KEY: Final = 256
"""The most characters of a key that is an attribute; a longer key is left out."""
MOST_TOPICS: Final = 1000
"""The most topics whose attributes are kept, for a service that generates topic names."""

_batch: ContextVar[Span | None] = ContextVar("aiokafkapy.batch_span", default=None)
"""The span of the ``send_many`` that the running task is in."""


class KafkaTracing:
    """Makes the spans of one service's records, as an interceptor of any number of producers.

    ``tracer_provider`` and ``propagator`` are by default the application's global ones. ``client_id`` is an attribute
    of each span; ``with_keys=False`` leaves out keys, which may be secret.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        propagator: TextMapPropagator | None = None,
        *,
        client_id: str | None = None,
        with_keys: bool = True,
    ) -> None:
        self._tracer = trace.get_tracer("aiokafkapy", __version__, tracer_provider, SCHEMA_URL)
        self._headers = ContextInHeaders(propagator)
        self._client_id = client_id
        self._with_keys = with_keys
        self._operations: dict[tuple[str, str], _Operation] = {}

    # as an interceptor

    def track(
        self, record: ProducerRecord
    ) -> tuple[ProducerRecord, Callable[[RecordMetadata | None, BaseException | None], None] | None]:
        """The record with the context of its span in its headers, and the function that ends the span."""
        batch = _batch.get()
        has_context = self._headers.is_in(record.headers)
        operation = self._operation("send" if batch is None else "create", str(record.topic))
        span = self._tracer.start_span(
            operation.span_name,
            kind=SpanKind.PRODUCER,
            attributes=operation.attributes,
            links=self._links([record]) if has_context else None,
        )
        if not span.is_recording():
            return self._carrying(record, span) if not has_context else record, None
        if batch is not None:
            batch.add_link(span.get_span_context())
        if not has_context:
            record = self._carrying(record, span)
        self._describe(span, record.key, is_tombstone=record.value is None, partition=record.partition)
        return record, lambda metadata, error: _end_with_outcome(span, metadata, error)

    # many records

    @overload
    async def send_many(
        self,
        producer: KafkaProducer[Any, Any],
        topic: str,
        values_or_records: Iterable[object],
        *,
        return_exceptions: Literal[False] = False,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata]: ...

    @overload
    async def send_many(
        self,
        producer: KafkaProducer[Any, Any],
        topic: str,
        values_or_records: Iterable[object],
        *,
        return_exceptions: bool,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata | BaseException]: ...

    async def send_many(
        self,
        producer: KafkaProducer[Any, Any],
        topic: str,
        values_or_records: Iterable[object],
        *,
        return_exceptions: bool = False,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata | BaseException]:
        """As ``producer.send_many``, in one span that links to a span of each record.

        The producer needs this tracing among its interceptors, or the records have no spans. A failure is the span's
        error, even if it is returned.
        """
        operation = self._operation("send", topic)
        # Not PRODUCER: the records carry the contexts of their own spans.
        span = self._tracer.start_span(operation.span_name, kind=SpanKind.CLIENT, attributes=operation.attributes)
        token = _batch.set(span if span.is_recording() else None)
        try:
            with _used(span):
                outcomes = await producer.send_many(
                    topic, values_or_records, return_exceptions=return_exceptions, overflow=overflow
                )
                span.set_attribute(COUNT, len(outcomes))
                if return_exceptions and span.is_recording():
                    _note_errors(span, [each for each in outcomes if isinstance(each, BaseException)])
        finally:
            _batch.reset(token)
        return outcomes

    # consumers

    @contextmanager
    def process(self, record_or_records: Any, *, group: str | None = None, new_trace: bool = False) -> Iterator[Span]:
        """A span for the processing of a record, or of a list of them, as any Python consumer gives them.

        One record is processed in the trace that it was sent in, with its baggage, unless ``new_trace``; for several,
        a span of the running trace links to them. An exception of the block is the span's error, and is raised again.
        """
        is_batch = isinstance(record_or_records, list | tuple) and not hasattr(record_or_records, "topic")
        records = [_Consumed.of(each) for each in (record_or_records if is_batch else [record_or_records])]
        topics = {each.topic for each in records}
        operation = self._operation("process", topics.pop() if len(topics) == 1 else "")
        parent = context.get_current()
        if not is_batch and not new_trace:
            parent = self._headers.read(records[0].headers)
        span = self._tracer.start_span(
            operation.span_name,
            parent,
            SpanKind.CONSUMER,
            operation.attributes,
            self._links(records),
        )
        if span.is_recording():
            if group is not None:
                span.set_attribute(GROUP, group)
            if is_batch:
                span.set_attribute(COUNT, len(records))
            else:
                _describe_place(span, records[0].partition, records[0].offset)
                self._describe(span, records[0].key, is_tombstone=records[0].is_tombstone, partition=None)
        with _attached(parent), _used(span):
            yield span

    # internals

    def _operation(self, name: str, topic: str) -> _Operation:
        known = self._operations.get((name, topic))
        if known is None:
            attributes: dict[str, str] = {SYSTEM: "kafka", OPERATION_NAME: name, OPERATION_TYPE: name}
            if topic:
                attributes[DESTINATION] = topic
            if self._client_id is not None:
                attributes[CLIENT_ID] = self._client_id
            known = _Operation(f"{name} {topic}".rstrip(), attributes)
            if len(self._operations) < MOST_TOPICS:
                self._operations[name, topic] = known
        return known

    def _carrying(self, record: ProducerRecord, span: Span) -> ProducerRecord:
        """The record with the context of the span, and the baggage around it; the same record without either."""
        if not span.get_span_context().is_valid:
            span = trace.get_current_span()  # without an SDK, tracers of opentelemetry-api before 1.37 give no context
            if not span.get_span_context().is_valid and not baggage.get_all():
                return record
        carried = self._headers.of(trace.set_span_in_context(span))
        return replace(record, headers=with_headers(record.headers, carried)) if carried else record

    def _links(self, records: Iterable[ProducerRecord | _Consumed]) -> list[Link]:
        """Links to the contexts that the records carry."""
        contexts = (
            trace.get_current_span(self._headers.read(each.headers, Context())).get_span_context() for each in records
        )
        return [Link(found) for found in contexts if found.is_valid]

    def _describe(self, span: Span, key: object, *, is_tombstone: bool, partition: object) -> None:
        """The attributes of a record before it is sent, or when it is processed."""
        text = _text_of(key) if self._with_keys else None
        if text is not None:
            span.set_attribute(KEY, text)
        if is_tombstone:
            span.set_attribute(TOMBSTONE, True)
        if partition is not None:
            span.set_attribute(PARTITION, str(partition))


class _Operation(NamedTuple):
    """The attributes of all spans of an operation on a topic."""

    span_name: str
    attributes: dict[str, str]


class _Consumed(NamedTuple):
    """A record of any consumer."""

    topic: str
    partition: int | None
    offset: int | None
    key: object
    is_tombstone: bool
    headers: Any

    @classmethod
    def of(cls, record: object) -> _Consumed:
        """confluent-kafka's messages have methods, others' records have attributes."""
        topic, partition, offset, key, value, headers = (
            found() if callable(found := getattr(record, name, None)) else found
            for name in ("topic", "partition", "offset", "key", "value", "headers")
        )
        return cls(topic or "", partition, offset, key, value is None, headers)


def _text_of(key: object) -> str | None:
    """The key as text, if it certainly is text."""
    if isinstance(key, bytes) and len(key) <= 4 * LONGEST_KEY:
        try:
            key = key.decode()
        except UnicodeDecodeError:
            return None
    return key if isinstance(key, str) and len(key) <= LONGEST_KEY else None


def _describe_place(span: Span, partition: int | None, offset: int | None) -> None:
    if partition is not None and partition >= 0:
        span.set_attribute(PARTITION, str(partition))
    if offset is not None and offset >= 0:
        span.set_attribute(OFFSET, offset)


def _end_with_outcome(span: Span, metadata: RecordMetadata | None, error: BaseException | None) -> None:
    if metadata is not None:
        _describe_place(span, metadata.partition, metadata.offset)
        if metadata.serialized_value_size >= 0:
            span.set_attribute(BODY_SIZE, metadata.serialized_value_size)
    elif error is not None:
        _note_error(span, error)
    span.end()


def _note_error(span: Span, error: BaseException) -> None:
    span.set_attribute(ERROR_TYPE, type(error).__name__)
    text = text_without_data(error)
    span.set_status(Status(StatusCode.ERROR, text or type(error).__name__))
    cause = foreign_cause(error)
    if cause is None:
        span.record_exception(error)
        return
    # The SDK writes the texts of both errors, which may contain the record's value; places in the code do not.
    places = "".join(traceback.format_tb(cause.__traceback__) + traceback.format_tb(error.__traceback__))
    attributes = {"exception.message": text, "exception.stacktrace": f"{places}{type(error).__name__}: {text}"}
    span.record_exception(error, attributes)


def _note_errors(span: Span, errors: Sequence[BaseException]) -> None:
    """The first error, since a span has one; the records' own spans have the others."""
    if errors:
        _note_error(span, errors[0])
        span.set_attribute("messaging.kafka.failed_count", len(errors))


@contextmanager
def _used(span: Span) -> Iterator[None]:
    """Make the span the current one in the block; it gets the block's error, also a cancellation, and ends with it."""
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except BaseException as error:
            _note_error(span, error)
            raise


@contextmanager
def _attached(wanted: Context) -> Iterator[None]:
    token = context.attach(wanted)
    try:
        yield
    finally:
        context.detach(token)
