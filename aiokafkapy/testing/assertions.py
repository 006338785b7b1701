"""``assert_produced``: checks whether a record was produced, and if not, shows the nearest ones.

Owns the matching of records, and the message with the nearest ones. It knows a ``DevBroker`` and a ``MockProducer`` by
their ``records``, and any other object that has it.

Rule: a part that is not given may be anything; the nearest record has the most matching parts, and then the most
similar bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from typing import Any, Final, Protocol, TypeAlias, TypedDict

from ..common import ConsumedRecord, counted
from ..errors import UnknownTopicOrPartitionError

__all__ = ["assert_produced"]

MOST_SHOWN: Final = 3
LONGEST_SHOWN: Final = 200
"""Characters of one key, value or header."""
MOST_COMPARED: Final = 1000
"""The latest records that are compared for the message; similarity takes long to compute."""
LONGEST_COMPARED: Final = 2000

Wanted: TypeAlias = bytes | bytearray | memoryview | Callable[[Any], object] | None
"""Bytes, None for a tombstone or no key, or a function that accepts the content."""


class _Any:
    def __repr__(self) -> str:
        return "anything"


ANY: Final[Any] = _Any()


class WantedRecord(TypedDict, total=False):
    """The keyword arguments of ``assert_produced``."""

    value: Wanted
    key: Wanted
    headers: Mapping[str, Wanted] | Iterable[tuple[str, Wanted]]
    partition: int | None
    count: int | None


class HasRecords(Protocol):
    """``DevBroker`` and ``MockProducer``."""

    def records(self, topic: str, partition: int | None = ...) -> list[ConsumedRecord]:
        """The records of a topic, or of a partition, in order of partition, then offset."""


def assert_produced(
    produced: HasRecords,
    topic: str,
    *,
    value: Wanted = ANY,
    key: Wanted = ANY,
    headers: Mapping[str, Wanted] | Iterable[tuple[str, Wanted]] = (),
    partition: int | None = None,
    count: int | None = None,
) -> list[ConsumedRecord]:
    """The matching records of a topic; AssertionError without any, or if they are not ``count``.

    ``produced`` is a ``DevBroker`` or a ``MockProducer``. ``headers`` are those that a record must have, beside
    others. ``count=0`` asserts that there is no such record; ValueError for fewer. It looks at once: await the sending
    first.
    """
    __tracebackhide__ = True  # pytest hides this frame
    if count is not None and count < 0:
        raise ValueError(f"count={count}: write 0 or more, or None")
    wanted = _Wanted(value, key, list(headers.items() if isinstance(headers, Mapping) else headers))
    try:
        records = produced.records(topic, partition)
    except UnknownTopicOrPartitionError:
        records = []
    found = [record for record in records if wanted.is_met_by(record)]
    if (found and count is None) or len(found) == count:
        return found
    place = topic if partition is None else f"{topic}-{partition}"
    raise AssertionError(_message(place, wanted, records, found, count))


class _Wanted:
    """The expectation of a record."""

    def __init__(self, value: Wanted, key: Wanted, headers: list[tuple[str, Wanted]]) -> None:
        parts: list[tuple[str, str | None, Any]] = [("value", None, value), ("key", None, key)]
        parts += [("header", name, content) for name, content in headers]
        self._parts = [part for part in parts if part[2] is not ANY]
        for kind, name, content in self._parts:
            if not (content is None or callable(content) or isinstance(content, bytes | bytearray | memoryview)):
                what = f"{kind} {name!r}" if name else kind
                raise TypeError(
                    f"assert_produced(): {what} is a {type(content).__name__}, not bytes, None or a function: records "
                    "are compared as they are in Kafka, serialized"
                )

    def __str__(self) -> str:
        parts = [f"{_named(kind, name)} {_shown(wanted)}" for kind, name, wanted in self._parts]
        return "a record" + (f" with {', '.join(parts)}" if parts else "")

    def is_met_by(self, record: ConsumedRecord) -> bool:
        """True when the record matches in all parts."""
        return not self.differences(record)

    def differences(self, record: ConsumedRecord) -> list[str]:
        """The parts of the record that differ, a line for each."""
        found = []
        for kind, name, wanted in self._parts:
            contents = _contents(record, kind, name)
            if not any(_is(content, wanted) for content in contents):
                is_now = ", ".join(map(_shown, contents)) if contents else "missing"
                found.append(f"{_named(kind, name)} is {is_now}, not {_shown(wanted)}")
        return found

    def likeness(self, record: ConsumedRecord) -> tuple[int, float]:
        """Greater for a record that is nearer."""
        alike = 0.0
        for kind, name, wanted in self._parts:
            if isinstance(wanted, bytes | bytearray | memoryview):
                given = bytes(wanted)[:LONGEST_COMPARED]
                contents = [each for each in _contents(record, kind, name) if each is not None]
                ratios = [SequenceMatcher(None, given, each[:LONGEST_COMPARED], False).ratio() for each in contents]
                alike += max(ratios, default=0.0)
        return -len(self.differences(record)), alike


def _message(
    place: str, wanted: _Wanted, records: list[ConsumedRecord], found: list[ConsumedRecord], count: int | None
) -> str:
    expected = str(wanted) if count is None else f"{count} times {wanted}"
    lines = [f"{place}: expected {expected}; of {counted(len(records), 'record')} {len(found)} match"]
    if found:
        lines += [f"  {_described(record)}" for record in found[:MOST_SHOWN]]
        if len(found) > MOST_SHOWN:
            lines.append(f"  and {len(found) - MOST_SHOWN} more")
        return "\n".join(lines)
    nearest = sorted(records[-MOST_COMPARED:], key=wanted.likeness, reverse=True)[:MOST_SHOWN]
    if nearest:
        lines.append("the nearest:")
    for record in nearest:
        lines.append(f"  {_described(record)}")
        lines += [f"    {difference}" for difference in wanted.differences(record)]
    return "\n".join(lines)


def _described(record: ConsumedRecord) -> str:
    place = f"{record.topic}-{record.partition}" + (f" at {record.offset}" if record.offset >= 0 else ", not delivered")
    headers = f", headers {_cut(repr(list(record.headers)))}" if record.headers else ""
    return f"{place}: key {_shown(record.key)}, value {_shown(record.value)}{headers}"


def _named(kind: str, name: str | None) -> str:
    return kind if name is None else f"{kind} {name!r}"


def _contents(record: ConsumedRecord, kind: str, name: str | None) -> list[bytes | None]:
    if kind == "header":
        return [content for found, content in record.headers if found == name]
    return [record.value if kind == "value" else record.key]


def _is(content: bytes | None, wanted: Wanted) -> bool:
    if callable(wanted):
        return bool(wanted(content))
    return content is None if wanted is None else content is not None and content == bytes(wanted)


def _shown(content: object) -> str:
    if callable(content):
        return f"what {getattr(content, '__name__', repr(content))} accepts"
    return _cut(repr(bytes(content) if isinstance(content, bytearray | memoryview) else content))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
