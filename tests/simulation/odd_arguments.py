"""Arguments that no type checker accepts, with the expected result of each: success, or an error of that record alone.

Pure. Each one changes an otherwise valid call. They are of the kinds that once affected more than their own record:
names that no encoder or broker accepts, numbers of other types, data that is not contiguous bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiokafkapy.errors import InvalidTopicError, MetadataNotReadyError, MetadataTimeoutError, SerializationError

__all__ = ["ODD_ARGUMENTS", "OddArgument"]

HEADERS: Final = (("odd", b"1"), ("none", None))
NO_SUCH_PARTITION: Final = 1_000


@dataclass(frozen=True)
class OddArgument:
    """``change`` gives the arguments in the place of those that are right; None for ``errors``: it is accepted."""

    change: Callable[[bytes], dict[str, Any]]
    errors: tuple[type[BaseException], ...] | None = None
    headers: tuple[tuple[str, bytes | None], ...] | None = None


def _fixed(errors: type[BaseException] | tuple[type[BaseException], ...], **arguments: Any) -> OddArgument:
    return OddArgument(lambda _: arguments, errors if isinstance(errors, tuple) else (errors,))


def _released(value: bytes) -> memoryview:
    view = memoryview(value)
    view.release()
    return view


class Failing:
    """Headers that cannot be read to their end."""

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        yield ("a", b"")
        raise LookupError("hostile")


ODD_ARGUMENTS: Final[tuple[OddArgument, ...]] = (
    *(_fixed(InvalidTopicError, topic=name) for name in ("\ud800", "x" * 40_000, "x" * 250, ".", "a b", "", 5, None)),
    *(_fixed(TypeError, partition=number) for number in (0.7, True, "0", 0j)),
    *(_fixed(ValueError, partition=number) for number in (-1, 2**31, -(10**400))),
    _fixed((MetadataTimeoutError, MetadataNotReadyError), partition=NO_SUCH_PARTITION),
    *(_fixed(TypeError, timestamp_ms=moment) for moment in (1.7e12, True, "now")),
    *(_fixed(ValueError, timestamp_ms=moment) for moment in (-1, 2**63, datetime(1969, 1, 1, tzinfo=UTC))),
    *(_fixed(SerializationError, headers=headers) for headers in ("ab", 5, [("\ud800", b"")], [("a", 1)], ["ab"])),
    _fixed(SerializationError, key=0.5),
    _fixed(SerializationError, key="text"),
    _fixed(SerializationError, headers=Failing()),
    OddArgument(lambda value: {"value": value.decode()}, (SerializationError,)),
    OddArgument(lambda value: {"value": _released(value)}, (SerializationError,)),
    OddArgument(lambda value: {"value": bytearray(value)}),
    OddArgument(lambda value: {"value": memoryview(value)}),
    OddArgument(lambda value: {"key": bytearray(value)}),
    OddArgument(lambda _: {"timestamp_ms": datetime(2024, 1, 1, tzinfo=UTC)}),
    OddArgument(lambda _: {"headers": (pair for pair in HEADERS)}, headers=HEADERS),
    OddArgument(lambda _: {"headers": dict(HEADERS)}, headers=HEADERS),
)
