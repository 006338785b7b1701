"""Dead letters: records that are refused for good go to another topic, with the reason in their headers.

Owns the choice of lasting errors, and the bound of dead letters under way; ``letter_form`` has their content. It
stands around a producer's calls and needs nothing inside it. Kafka's counterparts are Connect's
``errors.deadletterqueue.topic.name`` and Streams' dead-letter queue (KIP-1034); its producer has no counterpart.

Rules:

- The caller gets the original error, always and first; a dead letter is sent besides, never instead.
- A separate producer, without serializers, sends dead letters outside any transaction. A dead letter that fails is
  logged and counted, and never becomes a dead letter again; nor does a record of a dead-letter topic.
- Dead letters are bounded in number, in bytes (``max_payload_bytes`` for key, value and headers each), and by the
  largest record of their producer. A letter over the number is dropped, counted and logged.
- Data that a schema's rules encrypt is hidden in the dead letter too; a rule whose action is ``DLQ`` names its topic.

Events: ``dead_letter.written`` (warning; topic, dead_letter_topic, error), ``dead_letter.failed`` (error; topic,
dead_letter_topic, error), ``dead_letter.dropped`` (error; topic, max_pending); rate-limited by topic.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias, Unpack, overload

from ..common import check_topic_name, integer_of
from ..errors import (
    ConfigurationError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTopicError,
    KafkaError,
    MessageTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    SerializationError,
    TopicAuthorizationFailedError,
    UnsupportedForMessageFormatError,
)
from ..observability import RateLimitedLogger, get_logger
from ..producer.arguments import check_items
from ..producer.records import CallOverflow, ProducerRecord, RecordMetadata
from .letter_form import letter_of, redacted, rule_of
from .record_producer import RecordOptions, RecordProducer

if TYPE_CHECKING:
    from .. import Delivery, ProducerConfig

__all__ = ["DeadLetterCounts", "DeadLetters", "GuardedProducer", "is_permanent"]

_PERMANENT: Final = (
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTopicError,
    MessageTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnsupportedForMessageFormatError,
)
_SUFFIX: Final = ".dlq"

_logger = get_logger(__name__)

Hidden: TypeAlias = Callable[[ProducerRecord], ProducerRecord]
"""Returns a record without the data that a dead-letter topic's readers must not see."""


def is_permanent(error: BaseException) -> bool:
    """True if the same record would be refused again: by a serializer, for its size or content, or for its topic's
    rights.

    False for errors that end with a registry's or a broker's recovery, for errors of the producer and not of the
    record, and for a record that may have been written.
    """
    if isinstance(error, SerializationError):
        return _is_of_data(error.__cause__)
    return isinstance(error, _PERMANENT) and not error.outcome_unknown


def _is_of_data(cause: BaseException | None) -> bool:
    """True if a serializer failed because of the data or its schema, and not because of a service that it uses."""
    if isinstance(cause, KafkaError):
        # A registry's refusal of the schema has its own class.
        return isinstance(cause, (SerializationError, *_PERMANENT)) or getattr(cause, "refuses_schema", False)
    is_passing = isinstance(cause, (TimeoutError, OSError, asyncio.CancelledError))
    return not is_passing and not getattr(cause, "retriable", False)


@dataclass(frozen=True, slots=True)
class DeadLetterCounts:
    """Outcomes of dead letters so far."""

    written: int = 0
    failed: int = 0
    dropped: int = 0
    pending: int = 0


class DeadLetters:
    """Sends other producers' records that were refused for good: ``orders = dead_letters.guard(producer)``.

    ``topic`` is the name of the dead-letter topic, or a function of the original's; by default ``<original>.dlq``.
    Leaving ``async with`` waits for those under way, see ``drain``.
    """

    def __init__(
        self,
        producer: RecordProducer,
        topic: str | Callable[[str], str] | None = None,
        *,
        is_permanent: Callable[[BaseException], bool] = is_permanent,
        max_pending: int = 1_000,
        max_payload_bytes: int = 500_000,
    ) -> None:
        config = producer.config
        if config.key_serializer is not None or config.value_serializer is not None:
            raise ConfigurationError("the producer of dead letters sends bytes: make one without serializers")
        if config.transactional_id is not None:
            raise ConfigurationError(
                "the producer of dead letters has a transactional_id: they would be lost with a transaction that is "
                "aborted; make one without"
            )
        if isinstance(topic, str):
            check_topic_name(topic)
        elif topic is not None and not callable(topic):
            raise ConfigurationError(
                f"topic={topic!r}: write the name of a topic, or a function of the original's name"
            )
        self._producer = producer
        self._topic = topic
        self._is_permanent = is_permanent
        self._max_pending = _positive("max_pending", max_pending)
        self._max_payload = _positive("max_payload_bytes", max_payload_bytes)
        self._log = RateLimitedLogger(_logger)
        self._names: set[str] = set()  # names of dead-letter topics
        self._pending: set[asyncio.Task[None]] = set()
        # Records that were accepted from guarded calls and have no outcome yet
        self._watched = 0
        self._all_told: asyncio.Future[None] | None = None
        self._written = 0
        self._failed = 0
        self._dropped = 0

    @property
    def counts(self) -> DeadLetterCounts:
        """The outcomes of the letters so far."""
        return DeadLetterCounts(self._written, self._failed, self._dropped, len(self._pending))

    def guard(self, producer: RecordProducer) -> GuardedProducer:
        """The producer, with its refused records sent here."""
        return GuardedProducer(producer, self)

    def refuse(self, record: ProducerRecord, error: BaseException, hidden: Hidden | None = None) -> bool:
        """Send a record here, as ``hidden`` leaves it, if its error is for good; never waits, never raises. True when
        it is under way.

        For direct callers; a guarded producer calls it by itself.
        """
        try:
            if not self._is_permanent(error):
                return False
            return self._begin(record if hidden is None else hidden(record), error)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as problem:  # a user's function failed, perhaps with a CancelledError; or no loop runs
            self._failed += 1
            name = record.topic if isinstance(record.topic, str) else f"a {type(record.topic).__name__}"
            text = type(problem).__name__
            self._log.log("refuse", monotonic(), logging.ERROR, "dead_letter.failed", topic=name, error=text)
            return False

    async def drain(self) -> None:
        """Wait until the records of guarded calls have their outcome, and the dead letters of the refused ones too.
        The producers' ``delivery_timeout_ms`` bounds it. The caller of a ``send`` or ``send_many`` still waits for
        that itself.
        """
        while self._pending or self._watched:
            if self._pending:
                await asyncio.wait(self._pending)
            else:
                if self._all_told is None or self._all_told.done():
                    self._all_told = asyncio.get_running_loop().create_future()
                await asyncio.shield(self._all_told)

    def watch(self, record: ProducerRecord, delivery: Delivery, hidden: Hidden | None = None) -> None:
        """Make a dead letter of an accepted record, as ``hidden`` leaves it, if its outcome is an error for good."""
        self._watched += 1
        delivery.add_done_callback(partial(self._on_done, record, hidden))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.drain()

    # asyncio callbacks

    def _on_done(self, record: ProducerRecord, hidden: Hidden | None, delivery: Delivery) -> None:
        try:
            error = delivery.exception()
            if error is not None:
                self.refuse(record, error, hidden)
        finally:  # drain() waits for it
            self._watched -= 1
            if not self._watched and self._all_told is not None and not self._all_told.done():
                self._all_told.set_result(None)

    # internals

    def _begin(self, record: ProducerRecord, error: BaseException) -> bool:
        """Send the letter of a record, unless it is one itself or too many are under way."""
        rule = rule_of(error)
        own_topic = None if rule is None else rule.dead_letter_topic
        topic = own_topic or self._topic_for(str(record.topic))
        if self._is_dead_letter_topic(record.topic) or record.topic == topic:
            return False
        self._names.add(topic)
        loop = asyncio.get_running_loop()
        if len(self._pending) >= self._max_pending:
            self._dropped += 1
            now, limit = loop.time(), self._max_pending
            self._log.log(
                ("dropped", topic), now, logging.ERROR, "dead_letter.dropped", topic=record.topic, max_pending=limit
            )
            return False
        letter = letter_of(topic, record, error, self._max_payload, self._producer.config.max_request_size)
        task = loop.create_task(self._send(letter, record.topic, type(error).__name__))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return True

    def _topic_for(self, original: str) -> str:
        if self._topic is None:
            return f"{original}{_SUFFIX}"
        return self._topic(original) if callable(self._topic) else self._topic

    def _is_dead_letter_topic(self, name: str) -> bool:
        # By its name too: after a restart earlier letters are not known.
        return name in self._names or (self._topic is None and name.endswith(_SUFFIX))

    async def _send(self, letter: ProducerRecord, original: str, error_name: str) -> None:
        now, topic = asyncio.get_running_loop().time(), letter.topic
        names = {"topic": original, "dead_letter_topic": topic}
        try:
            await self._producer.send(topic, letter.value, key=letter.key, headers=letter.headers)
        except Exception as error:
            self._failed += 1
            text = f"{type(error).__name__}: {error}"
            self._log.log(("failed", topic), now, logging.ERROR, "dead_letter.failed", **names, error=text)
        except BaseException:
            self._failed += 1
            raise
        else:
            self._written += 1
            self._log.log(("written", topic), now, logging.WARNING, "dead_letter.written", **names, error=error_name)


def _positive(name: str, given: object) -> int:
    number = integer_of(name, given)
    if number < 1:
        raise ConfigurationError(f"{name}={number}: write 1 or more")
    return number


class GuardedProducer:
    """A producer whose refused records are dead letters too. Calls, outcomes and errors are the producer's own.

    It holds a record's key and value until its outcome is known. Everything else is on ``producer``.
    """

    __slots__ = ("_dead_letters", "producer")

    def __init__(self, producer: RecordProducer, dead_letters: DeadLetters) -> None:
        self.producer = producer
        self._dead_letters = dead_letters

    @property
    def config(self) -> ProducerConfig:
        """The producer's options."""
        return self.producer.config

    async def send(self, topic: str, value: object = None, **options: Unpack[RecordOptions]) -> RecordMetadata:
        """Send one record and wait until it is delivered. If the call is cancelled and the record goes on, the record
        is watched like one of ``enqueue``.
        """
        record = _record_of(topic, value, options)
        try:
            return await self.producer.send(topic, value, **options)
        except asyncio.CancelledError as cancelled:
            self._watch_left((record,), cancelled)
            raise
        except Exception as error:
            self.refuse(record, error)
            raise

    async def enqueue(self, topic: str, value: object = None, **options: Unpack[RecordOptions]) -> Delivery:
        """Wait until the record is accepted; await the delivery for its outcome."""
        record = _record_of(topic, value, options)
        try:
            delivery = await self.producer.enqueue(topic, value, **options)
        except asyncio.CancelledError as cancelled:
            self._watch_left((record,), cancelled)
            raise
        except Exception as error:
            self.refuse(record, error)
            raise
        self._dead_letters.watch(record, delivery, self._hidden)
        return delivery

    def send_nowait(self, topic: str, value: object = None, **options: Unpack[RecordOptions]) -> Delivery:
        """Never wait."""
        record = _record_of(topic, value, options)
        try:
            delivery = self.producer.send_nowait(topic, value, **options)
        except Exception as error:
            self.refuse(record, error)
            raise
        self._dead_letters.watch(record, delivery, self._hidden)
        return delivery

    @overload
    async def send_many(
        self,
        topic: str,
        values_or_records: Iterable[object],
        *,
        return_exceptions: Literal[False] = False,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata]: ...

    @overload
    async def send_many(
        self,
        topic: str,
        values_or_records: Iterable[object],
        *,
        return_exceptions: bool,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata | BaseException]: ...

    async def send_many(
        self,
        topic: str,
        values_or_records: Iterable[object],
        *,
        return_exceptions: bool = False,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata | BaseException]:
        """Send many and wait for all. It holds all of them until then. An error of the iterable itself is raised once
        the records before it have their outcome.
        """
        check_items(values_or_records)
        sent: list[ProducerRecord] = []
        problems: list[BaseException] = []
        records = self._remembered(topic, values_or_records, sent, problems)
        try:
            outcomes = await self.producer.send_many(topic, records, return_exceptions=True, overflow=overflow)
        except asyncio.CancelledError as cancelled:
            self._watch_left(sent, cancelled)
            raise
        first: BaseException | None = None
        failed = 0
        for record, outcome in zip(sent, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                failed += 1
                first = first or outcome
                self.refuse(record, outcome)
        if problems:
            raise problems[0]
        if first is not None and not return_exceptions:
            first.add_note(f"{failed} of {len(sent)} records of send_many() failed")
            raise first
        return outcomes

    def refuse(self, record: ProducerRecord, error: BaseException) -> None:
        """Make a dead letter of a record if its error is for good."""
        self._dead_letters.refuse(record, error, self._hidden)

    # internals

    def _watch_left(self, records: Sequence[ProducerRecord], cancelled: asyncio.CancelledError) -> None:
        """A call was cancelled: watch its records that still go on."""
        # Another class of producer may not report these deliveries; there are none to watch then.
        for record, one in zip(records, getattr(cancelled, "deliveries", ()), strict=False):
            if isinstance(one, BaseException):
                self.refuse(record, one)
            elif not one.done() or one.exception() is not None:  # a million may be delivered
                self._dead_letters.watch(record, one, self._hidden)

    def _hidden(self, record: ProducerRecord) -> ProducerRecord:
        """The record without the data that a serializer's rules encrypt: the dead-letter topic has other readers."""
        config = self.producer.config
        key = redacted(config.key_serializer, record.topic, record.key)
        value = redacted(config.value_serializer, record.topic, record.value)
        if key is record.key and value is record.value:
            return record
        return ProducerRecord(record.topic, value, key, record.partition, record.timestamp_ms, record.headers)

    @staticmethod
    def _remembered(
        topic: str, items: Iterable[object], sent: list[ProducerRecord], problems: list[BaseException]
    ) -> Iterator[ProducerRecord]:
        """The records, which are also added to ``sent``; an error of the iterable ends them, and is added to
        ``problems``.
        """
        iterator = iter(items)
        while True:
            try:
                item = next(iterator)
            except (KeyboardInterrupt, SystemExit):
                raise
            except StopIteration:
                return
            except BaseException as problem:  # raised here, it would end the call without the outcomes
                problems.append(problem)
                return
            record = item if isinstance(item, ProducerRecord) else ProducerRecord(topic, item)
            sent.append(record)
            yield record


def _record_of(topic: str, value: object, options: RecordOptions) -> ProducerRecord:
    """The record of a call. ``options`` get its headers, since an iterator can be read only once."""
    record = ProducerRecord(
        topic,
        value,
        options.get("key"),
        options.get("partition"),
        options.get("timestamp_ms"),
        options.get("headers"),
    )
    options["headers"] = record.headers
    return record
