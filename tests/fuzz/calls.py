"""The producer's public calls with odd arguments and hostile hooks: ``Calls`` in ``targets`` runs them, and both
forms are compared by.

An input seeds a plan: a producer with hooks that raise or return nonsense for one topic, and some calls, each with an
argument or two that no type checker would let pass, or with such that only a broker refuses. ``played`` makes the calls
against a dev broker, ``made`` against any; they raise for a finding, and return the outcome of each.

Rules: everything follows from the input; no outcome tells of a time, an address or an order of bytes, so that the
tables of both forms, and the errors of both brokers, can be compared. ``python -m tests.fuzz.calls SEED …`` prints
them.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import json
import math
import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiokafkapy import KafkaProducer, ProducerRecord
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import InvalidRecordError, InvalidTimestampError, MetadataTimeoutError, RecordTooLargeError

__all__ = ["TOPICS", "class_of", "made", "outcomes_of", "played"]

TOPIC: Final = "t"
GOOD: Final = "good"
"""The topic for which every hook behaves."""
COMPACTED: Final = "compacted"
SMALL: Final = "small"
STAMPED: Final = "stamped"
TOPICS: Final[dict[str, dict[str, Any]]] = {
    TOPIC: {},
    GOOD: {},
    COMPACTED: {"cleanup_policy": "compact"},
    SMALL: {"max_message_bytes": 300},
    STAMPED: {"message_timestamp_type": "LogAppendTime"},
}
"""Topics that must exist, with two partitions each, and their configuration."""
MAX_BLOCK_MS: Final = 1_000
"""The time of calls that never find their topic or partition."""
PATIENCE: Final = 20.0
"""Seconds within which a good record must be delivered, after any others."""


class Index:
    """No int, but as good as one; or not."""

    def __init__(self, number: Any) -> None:
        self.number = number

    def __index__(self) -> Any:
        if isinstance(self.number, BaseException):
            raise self.number
        return self.number


class Hostile:
    """Raises for every question."""

    def _raise(self, *_: Any) -> Any:
        raise LookupError("hostile")

    __eq__ = __hash__ = __len__ = __bool__ = __iter__ = __index__ = __float__ = __lt__ = __repr__ = _raise


class Unprintable(Exception):
    """An error that cannot be shown."""

    def __str__(self) -> str:
        raise LookupError("hostile")


class Ending(BaseException):
    """An exception that ``except Exception`` lets pass."""


def _released() -> memoryview:
    view = memoryview(b"x")
    view.release()
    return view


def _failing() -> Any:
    yield ("a", b"")
    raise LookupError("hostile")


_ODD: Final[tuple[Callable[[], Any], ...]] = (
    lambda: None, lambda: True, lambda: 0.7, lambda: math.nan, lambda: math.inf, lambda: "1", lambda: "", lambda: b"x",
    lambda: "\ud800", lambda: ".", lambda: "a b", lambda: "x" * 40_000, lambda: -1, lambda: 2**31, lambda: 2**63,
    lambda: -(10**400), lambda: 10**5_000, lambda: 1j, object, list, dict, lambda: (1,), lambda: Index(1),
    lambda: Index("1"), lambda: Index(Unprintable()), Hostile, lambda: datetime(2024, 1, 1, tzinfo=UTC),
    lambda: datetime(1969, 1, 1, tzinfo=UTC), lambda: timedelta(1), _released, lambda: bytearray(b"x"),
    lambda: array.array("d", [1.0]), lambda: memoryview(b"wxyz")[::2], _failing, lambda: iter([("a", b"1")]),
    lambda: {"a": b"1"}, lambda: {"a": 1}, lambda: [("\ud800", b"")], lambda: [("a", array.array("i", [1]))],
    lambda: ["ab"], lambda: [("a", b"", 1)], lambda: [[("a", b"")]], lambda: ProducerRecord("a b", 1),
)  # fmt: skip
_FINE: Final[dict[str, tuple[Any, ...]]] = {
    "topic": (TOPIC, TOPIC, GOOD),
    "value": (b"value", None, b""),
    "key": (b"key", None),
    "partition": (0, 1, None, None),
    "timestamp_ms": (1_700_000_000_000, 0, None),
    "headers": ([("a", b"1"), ("b", None)], None, ()),
}
_EDGES: Final[dict[str, tuple[Any, ...]]] = {
    "topic": (TOPIC, GOOD, COMPACTED, COMPACTED, SMALL, SMALL, STAMPED),
    "value": (b"value", None, b"", b"x" * 200, b"x" * 300, b"x" * 1_048_400, b"x" * 1_050_000),
    "key": (b"key", None, b""),
    "partition": (0, 1, None),
    "timestamp_ms": (None, 0, 1_700_000_000_000, 4_000_000_000_000, 2**63 - 1),
    "headers": (None, [("", b"")], [("a" * 40_000, None)], [("", None)] * 1_000, [("ü", b"x" * 150)]),
}
"""Arguments that every type checker lets pass, and a producer too; a broker may not."""
_MISSING: Final = ({"topic": "missing"}, {"partition": 2}, {"topic": "mis.sing"}, {"partition": 2**31 - 1})
_TOLD_BY_A_BROKER: Final = (RecordTooLargeError, InvalidRecordError, InvalidTimestampError)
"""Their words tell of a time, or of a partition that chance has chosen."""
_ERRORS: Final[tuple[Callable[[], BaseException], ...]] = (
    lambda: ValueError("of a hook"), Unprintable, asyncio.CancelledError, GeneratorExit, StopIteration,
    lambda: Ending("of a hook"), lambda: TimeoutError("of a hook"), StopAsyncIteration,
)  # fmt: skip


class Hooks:
    """A partitioner, serializers and an interceptor that misbehave in one way each, for ``TOPIC`` only."""

    wants_topic = True

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._ways = {name: chance.choice(("fine", "raise", "odd", "coroutine")) for name in ("p", "s", "i", "a")}
        self._seed = chance.random()

    def options(self) -> dict[str, Any]:
        """The producer's options, each hook with even odds."""
        found = {"partitioner": self._partition, "key_serializer": self, "interceptors": [self]}
        return {name: hook for name, hook in found.items() if self._chance.random() < 0.5}

    def _partition(self, topic: str, *_: Any) -> Any:
        return self._misbehave("p", -1) if topic == TOPIC else None

    def __call__(self, topic: str, data: Any) -> Any:
        return self._misbehave("s", data) if topic == TOPIC else data

    def on_send(self, record: ProducerRecord) -> Any:
        return record if record.topic == GOOD else self._misbehave("i", record)

    def on_acknowledgement(self, *_: Any) -> Any:
        return self._misbehave("a", None)

    def _misbehave(self, hook: str, fine: Any) -> Any:
        # The same each time: the number of a hook's calls is not part of the plan.
        chance = random.Random(f"{self._seed} {hook}")
        way = self._ways[hook]
        if way == "raise":
            raise chance.choice(_ERRORS)()
        if way == "odd":
            odd = chance.choice(_ODD)()
            return ProducerRecord(TOPIC, b"x", partition=odd, headers=odd) if hook == "i" else odd
        return self._later(fine) if way == "coroutine" else fine

    async def _later(self, fine: Any) -> Any:
        return fine


def outcomes_of(seed: int) -> list[str]:
    """The outcomes of the calls of one plan."""
    return asyncio.run(played(b"%d" % seed))


async def played(data: bytes) -> list[str]:
    """Make the calls of a plan against a dev broker, and see that they harmed nothing."""
    async with DevBroker(auto_create_topics_enable=False) as broker:
        for name, config in TOPICS.items():
            broker.create_topic(name, partitions=2, **config)
        return await made(data, broker.bootstrap_servers)


async def made(data: bytes, bootstrap_servers: str, shown: Callable[[BaseException], str] | None = None) -> list[str]:
    """Make the calls of a plan against a broker that has ``TOPICS``, and see that they harmed nothing.

    ``shown`` has the text of an error: its type and message, unless given.
    """
    chance = random.Random(data)
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    hooks = Hooks(chance)
    options = hooks.options() | {"max_block_ms": MAX_BLOCK_MS, "allow_auto_create_topics": False}
    unstarted: KafkaProducer[Any, Any] = KafkaProducer(bootstrap_servers, **options)
    await _start(unstarted)
    async with unstarted as producer:
        calls = [_call(producer, chance) for _ in range(chance.randrange(1, 5))]
        outcomes = [await _outcome(call, shown or _words) for call in calls]
        async with asyncio.timeout(PATIENCE):
            await producer.send(GOOD, b"fine", key=b"key")
            await producer.flush()
        statistics = producer.statistics()
        assert statistics.accepted == statistics.delivered + statistics.failed, statistics
        assert producer.state.name == "RUNNING", producer.state
    assert told == []
    return outcomes


async def _start(producer: KafkaProducer[Any, Any]) -> None:
    """However slow the machine is: ``max_block_ms`` is short for the sake of the calls."""
    async with asyncio.timeout(PATIENCE):
        while producer.state.name == "NEW":
            with contextlib.suppress(MetadataTimeoutError):
                await producer.start()


def class_of(error: BaseException) -> str:
    """The class of an error that two brokers may tell in different words."""
    return type(error).__name__


def _call(producer: KafkaProducer[Any, Any], chance: random.Random) -> Callable[[], Any]:
    def odd() -> Any:
        return chance.choice(_ODD)()

    name = chance.choice(("send", "send", "enqueue", "send_nowait", "send_many", "send_arrow", "other", "edge", "edge"))
    if name == "edge":
        edges = {argument: chance.choice(values) for argument, values in _EDGES.items()}
        edges |= chance.choice(_MISSING) if chance.random() < 0.05 else {}
        return lambda: producer.send(**edges)
    if name == "other":
        method = getattr(producer, chance.choice(("partitions_for", "flush", "close", "ping")))
        argument = odd()
        while argument is None or (isinstance(argument, int | float) and not isinstance(argument, bool)):
            argument = odd()  # those would close
        return lambda: method(argument)
    arguments = {argument: chance.choice(values) for argument, values in _FINE.items()}
    for argument in chance.sample(sorted(arguments), chance.randrange(3)):
        arguments[argument] = odd()
    topic, value = arguments.pop("topic"), arguments.pop("value")
    if name == "send_many":
        record = ProducerRecord(TOPIC, value, **arguments) if chance.random() < 0.5 else value
        values = [record, b"x", value] if chance.random() < 0.9 else odd()
        return lambda: producer.send_many(topic, values, return_exceptions=True)
    if name == "send_arrow":
        table = _table() if chance.random() < 0.7 else odd()
        columns = {chance.choice(("key_column", "value_column", "topic_column")): odd()}
        return lambda: producer.send_arrow(topic, table, **columns if chance.random() < 0.5 else {})
    return lambda: getattr(producer, name)(topic, value, **arguments)


def _table() -> Any:
    import pyarrow

    return pyarrow.table({"value": [b"x", b"y"], "partition": [0, 1]})


async def _outcome(call: Callable[[], Any], shown: Callable[[BaseException], str]) -> str:
    """The outcome in words: the result, or the type and message of the exception."""
    try:
        found = call()
        for _ in range(2):  # a call may return a delivery
            found = await found if hasattr(found, "__await__") else found
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return shown(error)
    if hasattr(found, "__iter__") and not isinstance(found, tuple):
        return str([shown(each) if isinstance(each, BaseException) else type(each).__name__ for each in found])
    return type(found).__name__


def _words(error: BaseException) -> str:
    if isinstance(error, _TOLD_BY_A_BROKER):
        return class_of(error)
    try:
        text = str(error)
    except LookupError:
        text = "unprintable"
    return f"{type(error).__name__}: {text[:300]}"


if __name__ == "__main__":
    print(json.dumps([outcomes_of(int(seed)) for seed in sys.argv[1:]]))
