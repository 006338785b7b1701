"""User code that a producer runs, some of it hostile: partitioners, serializers, interceptors.

Owns the effect of one producer's hooks on each record, and checks their calls: a partitioner is called once per record,
with serialized bytes, in call order; an interceptor gets one outcome for each record that it has seen. A hook's effect
on a record is noted in its ``Sent``, for the checker. Knows neither faults nor logs.

Rules: the effect on a record depends on the seed and the record alone, not on the time. Hooks do nothing hostile to a
``calm`` record: it has an odd argument already, was sent from inside a hook, or belongs to the recovery phase.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from aiokafkapy import ProducerRecord
from aiokafkapy.errors import NotLeaderOrFollowerError, SerializationError
from aiokafkapy.producer.intake.partitioners import RoundRobinPartitioner

if TYPE_CHECKING:
    from .workload import Sent, Workload

__all__ = ["Data", "Hooks"]

NOW_AND_THEN: Final = 0.2
LONG: Final = 15.0
"""Seconds of an async serializer that always times out: more than any ``max_block_ms`` here."""
HEADER: Final = ("by", b"interceptor")


class Data:
    """A value that must be serialized."""

    def __init__(self, value: bytes) -> None:
        self.value = value


class Ending(BaseException):
    """An exception that ``except Exception`` does not catch."""


class Unprintable(Exception):
    """An error whose ``str`` raises."""

    def __str__(self) -> str:
        raise LookupError("hostile")


ERRORS: Final[tuple[Callable[[], BaseException], ...]] = (
    lambda: ValueError("of a hook"), lambda: NotLeaderOrFollowerError("of a hook"), lambda: TimeoutError("of a hook"),
    lambda: Ending("of a hook"), asyncio.CancelledError, StopIteration, GeneratorExit, Unprintable,
)  # fmt: skip
NO_PARTITIONS: Final[tuple[Any, ...]] = (0.7, True, "0", b"0", -2, 1_000, 2**31, 10**400, (), object())
NO_BYTES: Final[tuple[Any, ...]] = (5, "text", 0.5, (), object())
NO_RECORDS: Final[tuple[Any, ...]] = (None, b"", 5, object())


class Hooks:
    """The hooks of one producer. ``find`` is called with each violation that user code observes."""

    def __init__(self, seed: str, find: Callable[[str], None]) -> None:
        self.is_calm = False
        self.is_asked_again = False  # a record that comes out of a spool chooses its partition there, at each attempt
        self._seed = seed
        self._find = find
        self._workload: Workload | None = None
        chance = random.Random(seed)
        some = chance.random() < 0.5  # the others have none, as most producers
        self.partitioner = chance.choice(PARTITIONERS) if some and chance.random() < 0.7 else ""
        self.key_serializer = chance.choice(("", "", "sync", "async")) if some else ""
        self.value_serializer = chance.choice(("", "sync", "async", "raises", "odd")) if some else ""
        self.interceptors = chance.sample(INTERCEPTORS, chance.choice((0, 0, 1, 2))) if some else []
        self._round_robin = RoundRobinPartitioner()
        self._asked: Counter[int] = Counter()
        self._last_asked: dict[int, int] = {}
        # Records that the chain was shown, and outcomes that it was told.
        self._shown = 0
        self._told = 0

    def options(self) -> dict[str, Any]:
        """The producer's options."""
        found: dict[str, Any] = {}
        if self.partitioner:
            found["partitioner"] = _Partitioner(self)
        if self.key_serializer:
            found["key_serializer"] = _Serializer(self, "key", self.key_serializer)
        if self.value_serializer:
            found["value_serializer"] = _Serializer(self, "value", self.value_serializer)
        if self.interceptors:
            # The first one sees each record as it was given, and is told of each: it counts.
            found["interceptors"] = [_Counting(self), *(_Interceptor(self, way) for way in self.interceptors)]
        return found

    def attach(self, workload: Workload) -> None:
        """Set the workload whose records these are."""
        self._workload = workload

    def given(self, sent: Sent) -> Any:
        """The record's value as its user gives it."""
        is_data = self.value_serializer and self._chance("given", sent).random() < 0.7
        return Data(sent.value) if is_data else sent.value

    def check(self) -> None:
        """Check the number of calls, after the run."""
        if self._shown != self._told:
            self._find(f"interceptors were shown {self._shown} records and told of {self._told}")

    # the hooks' work

    def choose(self, topic: str, key: Any, value: Any, original: Any, cluster: Any) -> Any:
        """Stands in for a partitioner."""
        sent = self._record(value)
        if sent is None:
            self._find(f"a partitioner was given a {type(value).__name__}, not the serialized value")
            return None
        self._see(sent, key, original)
        chance, way = self._chance("partitioner", sent), self.partitioner
        if self.is_calm or sent.is_calm or chance.random() > NOW_AND_THEN:
            way = "round robin" if way == "round robin" else "right"
        if way == "raises":
            raise self._refused(sent, chance.choice(ERRORS)())
        if way == "odd":
            sent.refused = (ValueError,)
            return chance.choice(NO_PARTITIONS)
        if way == "takes back" and sent.task is not None:
            sent.task.cancel()
        if way == "sends":
            self.send_inside(chance)
        count = cluster.partition_count(topic)
        if way == "round robin":
            chosen = self._round_robin.partition(topic, key, value, key, original, cluster)
        else:
            chosen = chance.choice((None, -1, *range(count)))
        sent.chosen = chosen if chosen is not None and chosen >= 0 else None
        return chosen

    def serialize(self, part: str, way: str, data: Any) -> Any:
        """Stands in for a serializer. Only a value's effect is visible in its record."""
        sent = self._record(data) if part == "value" else None
        plain = data.value if isinstance(data, Data) else data
        if way == "sync":
            return plain
        if sent is None or self.is_calm or sent.is_calm:
            return self._later(plain, self._chance(part, sent).uniform(0, 0.02)) if way == "async" else plain
        chance = self._chance(part, sent)
        if way == "async":
            return self._serialize_later(sent, plain, chance)
        if chance.random() > NOW_AND_THEN:
            return plain
        if way == "raises":
            raise self._refused(sent, chance.choice(ERRORS)())
        sent.refused = (SerializationError,)
        return chance.choice(NO_BYTES)

    def intercept(self, way: str, record: ProducerRecord) -> Any:
        """Stands in for an interceptor's ``on_send``."""
        sent = self._record(record.value)
        if sent is None or self.is_calm or sent.is_calm:
            return record
        chance = self._chance(f"interceptor that {way}", sent)
        if chance.random() > NOW_AND_THEN:
            return record
        if way == "raises":
            raise chance.choice(ERRORS)()
        if way == "is odd":
            found = chance.choice((*NO_RECORDS, "coroutine"))
            return self._later(record, 0) if found == "coroutine" else found
        if way == "sends":
            self.send_inside(chance)
        if way == "changes":
            headers = (*(sent.headers or ()), HEADER)
            sent.headers = headers
            value = record.value if isinstance(record.value, Data) else bytearray(record.value)
            return replace(record, value=value, key=b"changed", timestamp_ms=1_700_000_000_000, headers=iter(headers))
        return record

    def send_inside(self, chance: random.Random) -> None:
        """Send another record now."""
        if self._workload is not None and not self.is_calm:
            self._workload.send_inside(chance)

    def show(self) -> None:
        """A record begins its way through the chain."""
        self._shown += 1

    def tell(self) -> None:
        """A record is at its end."""
        self._told += 1

    # internals

    def _record(self, value: Any) -> Sent | None:
        """The record of a value: all but those that are odd begin with the numbers of producer and record."""
        if isinstance(value, Data):
            value = value.value
        try:
            head = bytes(memoryview(value)[:24])
            order = int(head.partition(b" ")[0].partition(b"/")[2])
        except (TypeError, ValueError):
            return None
        return None if self._workload is None else self._workload.sent[order]

    def _see(self, sent: Sent, key: Any, original: Any) -> None:
        """A partitioner is asked for a partition of this record."""
        name = f"record {sent.producer}/{sent.order}"
        if self.is_asked_again:
            return
        self._asked[sent.order] += 1
        if self._asked[sent.order] > 1:
            self._find(f"a partitioner was asked {self._asked[sent.order]} times for {name}")
        if key is not None and not isinstance(key, bytes | bytearray | memoryview):
            self._find(f"a partitioner was given a {type(key).__name__} for the key of {name}")
        if isinstance(original, Data) and original.value != sent.value:
            self._find(f"a partitioner was given another value than that of {name}")
        if self._last_asked.get(sent.bulk, -1) > sent.order:
            self._find(f"a partitioner was asked for {name} after {self._last_asked[sent.bulk]}")
        self._last_asked[sent.bulk] = sent.order

    def _refused(self, sent: Sent, error: BaseException) -> BaseException:
        sent.refused = error
        return error

    async def _serialize_later(self, sent: Sent, plain: Any, chance: random.Random) -> Any:
        what = chance.random()
        await asyncio.sleep(LONG if what < 0.01 else chance.uniform(0, 0.02))
        if what > 1 - NOW_AND_THEN / 2:
            error = chance.choice(ERRORS)()
            # A coroutine that ends with GeneratorExit was closed, as far as Python is concerned.
            raise self._refused(sent, ValueError("of a hook") if isinstance(error, GeneratorExit) else error)
        if what > 1 - NOW_AND_THEN:
            sent.refused = (SerializationError,)
            return chance.choice(NO_BYTES)
        return plain

    async def _later(self, found: Any, seconds: float) -> Any:
        await asyncio.sleep(seconds)
        return found

    def _chance(self, hook: str, sent: Sent | None) -> random.Random:
        return random.Random(f"{self._seed}/{hook}/{-1 if sent is None else sent.order}")


PARTITIONERS: Final = ("round robin", "right", "raises", "odd", "takes back", "sends")
INTERCEPTORS: Final = ("changes", "raises", "is odd", "sends", "fails when told", "sends when told")


class _Partitioner:
    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def partition(self, topic: str, key_bytes: Any, value_bytes: Any, key: Any, value: Any, cluster: Any) -> Any:
        return self._hooks.choose(topic, key_bytes, value_bytes, value, cluster)

    def __repr__(self) -> str:
        return f"<partitioner: {self._hooks.partitioner}>"


class _Serializer:
    wants_topic = True

    def __init__(self, hooks: Hooks, part: str, way: str) -> None:
        self._hooks = hooks
        self._part = part
        self._way = way

    def __call__(self, topic: str, data: Any) -> Any:
        return self._hooks.serialize(self._part, self._way, data)

    def __repr__(self) -> str:
        return f"<{self._part}_serializer: {self._way}>"


class _Counting:
    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self._hooks.show()
        return record

    def on_acknowledgement(self, *_: Any) -> None:
        self._hooks.tell()

    def __repr__(self) -> str:
        return "<interceptor: counts>"


class _Interceptor:
    def __init__(self, hooks: Hooks, way: str) -> None:
        self._hooks = hooks
        self._way = way
        self._chance = random.Random(way)

    def on_send(self, record: ProducerRecord) -> Any:
        return self._hooks.intercept(self._way, record)

    def on_acknowledgement(self, *_: Any) -> None:
        if self._way == "fails when told" and self._chance.random() < NOW_AND_THEN:
            raise self._chance.choice(ERRORS)()
        if self._way == "sends when told" and self._chance.random() < NOW_AND_THEN / 4:
            self._hooks.send_inside(self._chance)

    def __repr__(self) -> str:
        return f"<interceptor: {self._way}>"
