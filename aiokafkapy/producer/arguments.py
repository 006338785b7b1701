"""The callers' arguments, checked where they come in, alike in the compiled and the interpreted form.

Owns the rules for topics, partitions, timestamps, headers, keys and values, and the error texts. It knows no producer
and no state. Kafka's counterpart is ``ProducerRecord``, whose constructor checks.

Rules:

- A wrong argument raises at the call, for that record: TypeError for a type and ValueError for a range, each naming
  topic and argument; InvalidTopicError for a topic; SerializationError for a key, value or header.
- A bool is not accepted as a number. Everything else that has ``__index__`` is an int: NumPy's integers, for example.
- An iterator of headers is read once; headers go on as a tuple of plain pairs, so that no caller's code
  runs after this module.
- The common types are tested first: for them a check costs next to nothing.
- An error does not show a key or a value: it may be secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from inspect import iscoroutine
from operator import index
from typing import Any, Final

from .. import common
from ..common import SHOWN_BITS, Headers, check_topic_name, integer_of, milliseconds
from ..errors import InvalidTopicError, KafkaError, SerializationError
from ..observability import describe_error
from ..record.builder import plain_headers, plain_number

__all__ = [
    "EarlyTime",
    "check_data",
    "check_items",
    "chosen_partition",
    "headers_of",
    "materialized",
    "milliseconds_of",
    "partition_of",
    "plain_data",
    "serialization_error",
    "time_of",
    "topic_name",
]

MAX_PARTITION: Final = common.MAX_PARTITION
MAX_TIMESTAMP: Final = 2**63 - 1
"""The largest that the protocol has room for."""
MAX_MILLISECONDS: Final = 2**31 - 1
"""The largest duration, as of Java's ``delivery.timeout.ms``."""


class EarlyTime(int):
    """A row's timestamp before 1970. Callers may not give such a time, as in Java; a table may contain it, if its
    records were read from another topic.
    """


def topic_name(topic: object) -> str:
    """The topic's name as a plain str, of an enum's member for example. Raises InvalidTopicError for anything else."""
    if not isinstance(topic, str):
        raise InvalidTopicError(f"the name of a topic is a {type(topic).__name__}, not a str")
    name = topic if type(topic) is str else str.__str__(topic)
    check_topic_name(name)
    return name


def partition_of(topic: object, partition: object) -> int:
    """The number of a partition that is not None."""
    number = plain_number(partition)
    if number < 0 or number > MAX_PARTITION:
        given = partition if type(partition) is int else _integer_of(topic, "partition", partition, "an int")
        number = plain_number(given)
        if number < 0 or number > MAX_PARTITION:
            raise ValueError(
                f"partition {_shown(given)} of topic {topic!r}: write 0 to {MAX_PARTITION}, or None to have one chosen"
            )
    return number


def chosen_partition(topic: str, chosen: Any, count: int) -> int | None:
    """A partitioner's choice among the topic's ``count`` partitions; None for -1, the sticky one. Raises ValueError."""
    number: int | None = None
    if not isinstance(chosen, bool) and hasattr(type(chosen), "__index__"):
        with suppress(Exception):
            number = index(chosen)
    if number == -1:
        return None
    if number is None or not 0 <= number < count:
        if iscoroutine(chosen):
            chosen.close()
        shown = f"a {type(chosen).__name__}" if number is None else _shown(number)
        raise ValueError(f"the partitioner chose {shown} for topic {topic!r}, which has partitions 0 to {count - 1}")
    return number


def time_of(topic: object, timestamp_ms: object) -> int:
    """A timestamp that is not None, in milliseconds."""
    number = plain_number(timestamp_ms)
    if number < 0:
        if type(timestamp_ms) is EarlyTime:
            return timestamp_ms
        given = timestamp_ms if type(timestamp_ms) is int else _milliseconds_of(topic, timestamp_ms)
        number = plain_number(given)
        if number < 0:
            raise ValueError(
                f"topic {topic!r}: timestamp_ms is {_shown(given)}: write 0 to {MAX_TIMESTAMP}, or None for now"
            )
    return number


def headers_of(topic: str, headers: object) -> Headers | None:
    """Headers that are not None, as a tuple of (str, bytes or None); None for an empty one.

    They may be pairs in any iterable, or a mapping; a value is of any type that has bytes.
    """
    plain = plain_headers(headers)
    if plain is None:
        plain = tuple([_header_of(topic, item) for item in materialized(topic, headers)])
    return plain or None


def check_data(topic: str, key: object, value: object) -> None:
    """Raise SerializationError unless key and value are None or have bytes."""
    if key is not None:
        _check_bytes(topic, "key", key)
    if value is not None:
        _check_bytes(topic, "value", value)


def check_items(items: object) -> None:
    """Raise TypeError for anything that is not an iterable of values."""
    if isinstance(items, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(items, Iterable):
        raise TypeError(f"send_many() takes an iterable of values or ProducerRecords, not a {type(items).__name__}")


def plain_data(data: Any) -> bytes | None:
    """A copy of a checked key's or value's bytes, so that its owner may change them while the record waits."""
    return data if data is None or type(data) is bytes else memoryview(data).tobytes()


def milliseconds_of(topic: object, name: str, given: object) -> int:
    """A duration of whole milliseconds, 1 or more. Raises TypeError and ValueError."""
    number = given if type(given) is int else _integer_of(topic, name, given, "an int of milliseconds")
    if number < 1 or number > MAX_MILLISECONDS:
        raise ValueError(f"topic {topic!r}: {name} is {_shown(number)}: write 1 to {MAX_MILLISECONDS}, or None")
    return number


def materialized(topic: str, headers: object) -> Headers:
    """The headers of an iterable or a mapping, read once. Raises SerializationError where that cannot be done."""
    if type(headers) is list or type(headers) is tuple:
        return headers
    if not isinstance(headers, Iterable):
        raise _pairs_error(topic, headers)
    try:
        return tuple(headers.items() if isinstance(headers, Mapping) else headers)
    except Exception as error:
        text = f"topic {topic!r}: headers cannot be read: {describe_error(error)}"
        raise SerializationError(text, topic=topic) from error


def serialization_error(part: str, topic: str, data: object, cause: BaseException | None = None) -> SerializationError:
    """The error for a key or value (``part``) that could not become bytes."""
    if cause is not None:
        text = f"the {part}_serializer failed for a record of topic {topic!r}: {describe_error(cause)}"
    else:
        text = (
            f"the {part} of a record of topic {topic!r} is a {type(data).__name__}, not bytes: "
            f"encode it, or give the producer a {part}_serializer"
        )
    error = SerializationError(text, topic=topic)
    error.__cause__ = cause
    error.retriable = isinstance(cause, KafkaError) and cause.retriable  # a registry that cannot be reached, say
    return error


# internals


def _integer_of(topic: object, name: str, given: object, wanted: str) -> int:
    try:
        return integer_of(name, given, wanted)
    except TypeError as error:  # the topic is formatted for an error only
        raise TypeError(f"topic {topic!r}: {error}") from error.__cause__


def _milliseconds_of(topic: object, moment: object) -> int:
    """As ``datetime.timestamp()``, without its rounding: a datetime without a time zone is local time."""
    if not isinstance(moment, datetime):
        return _integer_of(topic, "timestamp_ms", moment, "an int of milliseconds or a datetime")
    try:
        aware = moment.astimezone() if moment.tzinfo is None else moment
        return index(milliseconds(aware))
    except Exception as error:  # pandas' NaT, or an error of the caller's own time zone
        raise ValueError(f"topic {topic!r}: timestamp_ms is not a moment in time: {describe_error(error)}") from error


def _shown(number: int) -> str:
    return str(number) if number.bit_length() <= SHOWN_BITS else f"a number of {number.bit_length()} bits"


def _header_of(topic: str, item: Any) -> tuple[str, bytes | None]:
    if isinstance(item, (str, bytes)):
        raise _pairs_error(topic, item)
    try:
        name, value = item
    except Exception as error:
        raise _pairs_error(topic, item) from error
    place = f"topic {topic!r}"
    if not isinstance(name, str):
        raise SerializationError(f"{place}: a header's name is a {type(name).__name__}, not a str", topic=topic)
    name = str.__str__(name)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        text = f"{place}: the name of header {name!r} is not Unicode text: {error.reason}"
        raise SerializationError(text, topic=topic) from error
    if value is None or type(value) is bytes:
        return name, value
    try:
        return name, _view(value).tobytes()
    except TypeError:
        text = f"{place}: the value of header {name!r} is a {type(value).__name__}, not bytes or None"
        raise SerializationError(text, topic=topic) from None
    except Exception as error:
        text = f"{place}: the value of header {name!r} cannot be read: {describe_error(error)}"
        raise SerializationError(text, topic=topic) from error


def _pairs_error(topic: str, given: object) -> SerializationError:
    text = f"topic {topic!r}: headers must be pairs, [('name', b'value')], or a mapping; there is a "
    return SerializationError(text + type(given).__name__, topic=topic)


def _check_bytes(topic: str, part: str, data: object) -> None:
    try:
        _view(data).release()
    except TypeError:
        raise serialization_error(part, topic, data) from None
    except Exception as error:
        text = f"the {part} of a record of topic {topic!r} cannot be read: {describe_error(error)}"
        raise SerializationError(text, topic=topic) from error


def _view(data: Any) -> memoryview:
    """Raises TypeError for data without bytes; those of NumPy's arrays of objects are addresses."""
    view = memoryview(data)
    if "O" in view.format:
        view.release()
        raise TypeError("an array of objects has no bytes")
    return view
