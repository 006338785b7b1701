"""``assert_produced``: checks whether a record was produced, and if not, shows the nearest ones.

Owns the matching of records, and the message with the nearest ones. It knows a ``DevBroker`` and a ``MockProducer`` by
their ``records``, and any other object that has it.

Rule: a part that is not given may be anything; the nearest record has the most matching parts, and then the most
similar bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypedDict

from ..common import ConsumedRecord, counted
from ..errors import UnknownTopicOrPartitionError

__all__ = ["assert_produced"]

MOST_SHOWN: Final = 3
LONGEST_SHOWN: Final = 200
"""Characters of one key, value or header."""
MOST_COMPARED: Final = 1000
"""The latest records that are compared for the message; similarity takes long to compute."""
LONGEST_COMPARED: Final = 2000

_BYTES: Final = (bytes, bytearray, memoryview)

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
        parts = [_Part("value", None, value), _Part("key", None, key)]
        parts += [_Part("header", name, content) for name, content in headers]
        self._parts = [part for part in parts if part.wanted is not ANY]
        for part in self._parts:
            part.check()

    def __str__(self) -> str:
        parts = [f"{part} {_shown(part.wanted)}" for part in self._parts]
        return "a record" + (f" with {', '.join(parts)}" if parts else "")

    def is_met_by(self, record: ConsumedRecord) -> bool:
        """True when the record matches in all parts."""
        return not self.differences(record)

    def differences(self, record: ConsumedRecord) -> list[str]:
        """The parts of the record that differ, a line for each."""
        found = []
        for part in self._parts:
            contents = part.contents(record)
            if not any(map(part.is_met_by, contents)):
                is_now = ", ".join(map(_shown, contents)) if contents else "missing"
                found.append(f"{part} is {is_now}, not {_shown(part.wanted)}")
        return found

    def likeness(self, record: ConsumedRecord) -> tuple[int, float]:
        """Greater for a record that is nearer."""
        return -len(self.differences(record)), sum(part.similarity(record) for part in self._parts)


class _Part(NamedTuple):
    """A part of a record, and its expected content. ``name`` is that of a header."""

    kind: str
    name: str | None
    wanted: Wanted

    def __str__(self) -> str:
        return self.kind if self.name is None else f"{self.kind} {self.name!r}"

    def check(self) -> None:
        """Raise TypeError for a content that no record can have."""
        if not (self.wanted is None or callable(self.wanted) or isinstance(self.wanted, _BYTES)):
            raise TypeError(
                f"assert_produced(): {self} is a {type(self.wanted).__name__}, not bytes, None or a function: records "
                "are compared as they are in Kafka, serialized"
            )

    def contents(self, record: ConsumedRecord) -> list[bytes | None]:
        """The contents of the part in a record: none or several of a header."""
        if self.kind == "header":
            return [content for name, content in record.headers if name == self.name]
        return [record.value if self.kind == "value" else record.key]

    def is_met_by(self, content: bytes | None) -> bool:
        """True if the content is the expected one."""
        if callable(self.wanted):
            return bool(self.wanted(content))
        return content is None if self.wanted is None else content is not None and content == bytes(self.wanted)

    def similarity(self, record: ConsumedRecord) -> float:
        """From 0 to 1; 0 where no bytes are expected."""
        if not isinstance(self.wanted, _BYTES):
            return 0.0
        given = bytes(self.wanted)[:LONGEST_COMPARED]
        contents = [each for each in self.contents(record) if each is not None]
        ratios = [SequenceMatcher(None, given, each[:LONGEST_COMPARED], False).ratio() for each in contents]
        return max(ratios, default=0.0)


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


def _shown(content: object) -> str:
    if callable(content):
        return f"bytes that {getattr(content, '__name__', repr(content))} accepts"
    return _cut(repr(bytes(content) if isinstance(content, bytearray | memoryview) else content))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
