"""The goals: ratios of figures of one run, with their limits, as data.

A goal compares our row with the best of one or more peers' rows; or, without a peer, a figure with an absolute limit.
A goal whose rows were not measured has no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from .macro.open_loop import SHARES
from .results import Results
from .suite import CODECS, DEFAULT_BATCH, LARGE_BATCH, OUR_LEVELS, THEIR_LEVELS
from .web import fixed_rate
from .web.load import FROZEN, POLLED

__all__ = ["GOALS", "Answer", "Goal", "answers", "behind_a_peer"]

HIGHER_IS_BETTER: Final = {"rate"}


@dataclass(frozen=True, slots=True)
class Goal:
    """``figure`` of the row ``ours`` over that of the best of ``theirs``; ``sense`` says on which side of ``limit``.

    With ``at_equal_ratio`` each peer is taken at our compression ratio (see ``_at_our_ratio``), or left out.
    """

    text: str
    figure: str
    ours: str
    theirs: tuple[str, ...]
    sense: Literal["at least", "at most"]
    limit: float
    at_equal_ratio: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a goal: the ratio, or the figure itself; None when something was not measured."""

    goal: Goal
    value: float | None

    @property
    def is_met(self) -> bool | None:
        """None when there is no answer."""
        if self.value is None:
            return None
        return self.value >= self.goal.limit if self.goal.sense == "at least" else self.value <= self.goal.limit

    def to_dict(self) -> dict[str, Any]:
        """The goal's entry in the results."""
        return {
            "goal": self.goal.text,
            "sense": self.goal.sense,
            "limit": self.goal.limit,
            "value": self.value,
            "met": self.is_met,
        }


ALIKE: Final = 0.05
"""The distance, as a share of ours, at which a peer's compression ratio still counts as equal."""


def answers(results: Results, goals: tuple[Goal, ...] | None = None) -> list[Answer]:
    """Every goal's answer."""
    return [Answer(goal, _value(goal, results)) for goal in (GOALS if goals is None else goals)]


def behind_a_peer(results: Results, goals: tuple[Goal, ...] | None = None) -> list[Answer]:
    """The answers in which a peer is ahead, by whatever limit: its rate is higher, or its time, CPU or memory is less.
    Goals that compare our own rows are not among them.
    """
    return [
        answer
        for answer in answers(results, goals)
        if answer.value is not None
        and _is_of_peers(answer.goal, results)
        and (answer.value < 1.0 if answer.goal.figure in HIGHER_IS_BETTER else answer.value > 1.0)
    ]


def _is_of_peers(goal: Goal, results: Results) -> bool:
    ours = results.rows[goal.ours].measurement.client
    return any(label in results.rows and results.rows[label].measurement.client != ours for label in goal.theirs)


def _value(goal: Goal, results: Results) -> float | None:
    ours = _median(results, goal.ours, goal.figure)
    if ours is None or not goal.theirs:
        return ours
    if goal.at_equal_ratio:
        theirs = _at_our_ratio(goal, results)
    else:
        theirs = [value for label in goal.theirs if (value := _median(results, label, goal.figure))]
    if not theirs:
        return None
    return ours / (max(theirs) if goal.figure in HIGHER_IS_BETTER else min(theirs))


def _at_our_ratio(goal: Goal, results: Results) -> list[float]:
    """The rate of each peer at our compression ratio.

    A codec's levels are far apart: where a peer has a level on either side of our ratio, records shared out among the
    two would have it, and that mixture's rate counts. Otherwise it is the nearest level's, if that is within ``ALIKE``.
    """
    ours = _median(results, goal.ours, "ratio")
    levels: dict[str, list[tuple[float, float]]] = {}  # of each client, ratio and rate
    for label in goal.theirs:
        ratio, rate = _median(results, label, "ratio"), _median(results, label, "rate")
        if ratio and rate:
            levels.setdefault(results.rows[label].measurement.client, []).append((ratio, rate))
    found = [_rate_at(ours, of_client) for of_client in levels.values()] if ours else []
    return [rate for rate in found if rate is not None]


def _rate_at(ratio: float, levels: list[tuple[float, float]]) -> float | None:
    below = max((level for level in levels if level[0] <= ratio), default=None)
    above = min((level for level in levels if level[0] > ratio), default=None)
    if below is not None and above is not None:
        # Bytes of a record are 1 / ratio, its seconds 1 / rate; both add up over the records.
        share = (1 / below[0] - 1 / ratio) / (1 / below[0] - 1 / above[0])
        return 1 / ((1 - share) / below[1] + share / above[1])
    nearest = below or above
    return nearest[1] if nearest is not None and abs(nearest[0] - ratio) <= ALIKE * ratio else None


def _median(results: Results, label: str, figure: str) -> float | None:
    row = results.rows.get(label)
    return None if row is None else row.median(figure)


# the goals themselves


def _label(group: str, workload: str, client: str, size: str = "100 B") -> str:
    return f"{group} · {workload} · {size} · {client}"


_LONE: Final = _label("await", "lone await", "aiokafkapy")
_LONE_CONFLUENT: Final = _label("await", "lone await", "confluent-kafka")
_LONE_AIOKAFKA: Final = _label("await", "lone await", "aiokafka")
_TASKS: Final = _label("tasks", "1,000 tasks", "aiokafkapy")
_TASKS_SMALL: Final = _label("tasks", "1,000 tasks", f"aiokafka, {DEFAULT_BATCH}")
_TASKS_LARGE: Final = _label("tasks", "1,000 tasks", f"aiokafka, {LARGE_BATCH}")
_PIPE: Final = _label("pipelined", "pipelined", "aiokafkapy")
_PIPE_PURE: Final = _label("pipelined", "pipelined", "aiokafkapy, pure Python")
_PIPE_AIOKAFKA: Final = (
    _label("pipelined", "pipelined", f"aiokafka, {DEFAULT_BATCH}"),
    _label("pipelined", "pipelined", f"aiokafka, {LARGE_BATCH}"),
)
_PIPE_CONFLUENT: Final = _label("pipelined", "pipelined", "confluent-kafka")
_JAVA: Final = _label("pipelined", "pipelined", "Java")
_NOWAIT: Final = _label("send_nowait", "send_nowait", "aiokafkapy")
_MANY: Final = _label("bulk", "send_many", "aiokafkapy")
_PRODUCE_BATCH: Final = _label("bulk", "produce_batch", "confluent-kafka")
_ARROW: Final = _label("arrow", "send_arrow", "aiokafkapy")


def _kib(workload: str, client: str) -> str:
    return _label("1 KiB", workload, client, "1 KiB")


def _keyed(partitions: str) -> str:
    return _label("keyed partitions", "keyed", f"aiokafkapy, {partitions} partitions")


def _codec_goals() -> tuple[Goal, ...]:
    def row(codec: str, client: str, level: int | None) -> str:
        return _label("codecs", codec, client if level is None else f"{client}, level {level}", "1 KiB")

    found = []
    for codec in CODECS:
        theirs = [row(codec, "aiokafka", None), *(row(codec, "confluent-kafka", n) for n in THEIR_LEVELS[codec])]
        for level in OUR_LEVELS[codec]:
            name = codec if level is None else f"{codec}, level {level}"
            text = f"{name}: rate against the faster peer at an equal ratio"
            ours = row(codec, "aiokafkapy", level)
            found.append(Goal(text, "rate", ours, tuple(theirs), "at least", 1.0, at_equal_ratio=True))
    return tuple(found)


def _tls_goals() -> tuple[Goal, ...]:
    def row(workload: str, client: str, size: str = "100 B") -> str:
        return _label("TLS", workload, client, size)

    goals = [
        Goal(
            "TLS, lone await: p50 of confluent's produce + flush",
            "p50_ms",
            row("lone await", "aiokafkapy"),
            (row("lone await", "confluent-kafka"),),
            "at most",
            1.0,
        ),
        Goal(
            "TLS, lone await: p50 of aiokafka's",
            "p50_ms",
            row("lone await", "aiokafkapy"),
            (row("lone await", "aiokafka"),),
            "at most",
            0.7,
        ),
    ]
    for size in ("100 B", "1 KiB"):
        ours = row("pipelined", "aiokafkapy", size)
        for client, limit in (("aiokafka", 5.0), ("confluent-kafka", 1.0)):
            theirs = row("pipelined", f"aiokafka, {LARGE_BATCH}" if client == "aiokafka" else client, size)
            goals.append(Goal(f"TLS, pipelined {size}: rate of {client}'s", "rate", ours, (theirs,), "at least", limit))
    return tuple(goals)


def _transaction_goals() -> tuple[Goal, ...]:
    def row(workload: str, client: str) -> str:
        return _label("transactions", workload, client)

    found = []
    for workload, ours in (
        ("1 record", "aiokafkapy, send"),
        ("100 records", "aiokafkapy, enqueue"),
        ("10,000 records", "aiokafkapy, send_many"),
    ):
        for peer, limit in (("confluent-kafka", 1.0), ("Java", 1.0), ("aiokafka", 3.0)):
            text = f"transactions of {workload}: rate of {peer}'s"
            found.append(Goal(text, "rate", row(workload, ours), (row(workload, peer),), "at least", limit))
    return tuple(found)


_FROZEN_PEERS: Final = {"aiokafka": (FROZEN,), "AIOProducer": (f"{FROZEN}, {POLLED}",)}


def _web_goals() -> tuple[Goal, ...]:
    """Like against like: as it comes, each peer with its best settings; and with the collector's heap frozen."""

    def row(client: str, variant: str) -> str:
        return _label("web", "request", f"{client}, {variant}" if variant else client)

    goals = []
    for words, ours, peers in (
        ("", "", {"aiokafka": ("", "linger 1 ms"), "AIOProducer": ("", POLLED)}),
        (f", {FROZEN}", FROZEN, _FROZEN_PEERS),
    ):
        for peer, variants in peers.items():
            mine, theirs = row("aiokafkapy", ours), tuple(row(peer, variant) for variant in variants)
            goals.append(Goal(f"web service{words}: requests/s of {peer}'s", "rate", mine, theirs, "at least", 1.0))
            goals.append(Goal(f"web service{words}: p99 of {peer}'s", "p99_ms", mine, theirs, "at most", 1.0))
    return tuple(goals)


def _open_loop_goals() -> tuple[Goal, ...]:
    peers = {"aiokafka": ("no linger", "linger 5 ms"), "AIOProducer": ("", "batches of 16, no linger")}
    return _fixed_rate_goals("1,000 tasks at {} of aiokafka's records/s", "open loop", "open loop", peers)


def _web_open_loop_goals() -> tuple[Goal, ...]:
    rows, text = (fixed_rate.GROUP, fixed_rate.WORKLOAD), "at {} of aiokafka's requests/s"
    as_it_comes = {"aiokafka": ("",), "AIOProducer": (POLLED,)}
    return (
        *_fixed_rate_goals(f"web service {text}", *rows, as_it_comes),
        *_fixed_rate_goals(f"web service, {FROZEN}, {text}", *rows, _FROZEN_PEERS, ours=FROZEN),
    )


def _fixed_rate_goals(
    text: str, group: str, workload: str, peers: Mapping[str, tuple[str, ...]], *, ours: str = ""
) -> tuple[Goal, ...]:
    """The latency at each share; each peer at its best settings, figure by figure."""

    def row(client: str, variant: str, share: float) -> str:
        return _label(group, workload, f"{client}, {variant}, {share:.0%}" if variant else f"{client}, {share:.0%}")

    return tuple(
        Goal(
            f"{text.format(f'{share:.0%}')}: {name} of {peer}'s",
            figure,
            row("aiokafkapy", ours, share),
            tuple(row(peer, variant, share) for variant in variants),
            "at most",
            1.0,
        )
        for share in SHARES
        for peer, variants in peers.items()
        for name, figure in (("p50", "p50_ms"), ("p99", "p99_ms"), ("p99.9", "p999_ms"))
    )


def _flat_goals() -> tuple[Goal, ...]:
    def row(workload: str, variant: str) -> str:
        return _label("flat", workload, f"aiokafkapy, {variant}")

    many, few = row("topics", "10,000 topics, all known"), row("topics", "10 topics, all known")
    large = row("partitions", "100,000 of 10,000 topics, 100 nodes")
    small = row("partitions", "1,000 of 100 topics, 1 nodes")
    hour, fresh = row("ages", "after an hour"), row("ages", "fresh")
    return (
        # With the collector on, bare asyncio grows as much: its rows are beside ours.
        Goal(
            "64,000 sends gathered: CPU of 1,000, collector off",
            "no_gc_cpu_us",
            row("gathered", "64,000 at once"),
            (row("gathered", "1,000 at once"),),
            "at most",
            1.2,
        ),
        Goal(
            "32,000 sends of 1 KiB gathered: CPU of 1,000, collector on",
            "cpu_us",
            _label("flat", "gathered", "aiokafkapy, 32,000 at once", "1 KiB"),
            (_label("flat", "gathered", "aiokafkapy, 1,000 at once", "1 KiB"),),
            "at most",
            2.0,
        ),
        Goal("10,000 topics known: CPU of 10, collector off", "no_gc_cpu_us", many, (few,), "at most", 1.2),
        Goal("10,000 topics known: CPU of a lone await, of 10", "lone_cpu_us", many, (few,), "at most", 1.2),
        Goal("10,000 topics known: ms that metadata holds the loop", "refresh_held_ms", many, (), "at most", 10.0),
        Goal("100,000 partitions of 10,000 topics: CPU of 1,000", "cpu_us", large, (small,), "at most", 3.0),
        Goal("after an hour: CPU of fresh, collector off", "no_gc_cpu_us", hour, (fresh,), "at most", 1.2),
        Goal("after an hour: CPU of a lone await, of fresh", "lone_cpu_us", hour, (fresh,), "at most", 1.2),
    )


def _memory_goals() -> tuple[Goal, ...]:
    return tuple(
        Goal(
            f"memory, {how} of {size}: growth of buffer_memory",
            "growth_ratio",
            _label("memory", "stalled broker", f"aiokafkapy, {how}", size),
            (),
            "at most",
            1.2,
        )
        for size in ("100 B", "1 KiB", "100 KiB")
        for how in ("enqueue", "send_many")
    )


def _loop_goals() -> tuple[Goal, ...]:
    small = [(load, _label("loop", load, "aiokafkapy")) for load in ("bulk", "flood", "arrow")]
    large = [
        (f"1 MB, {codec}", _label("loop", "large", f"aiokafkapy, {codec}", "976 KiB"))
        for codec in ("none", "gzip", "lz4", "zstd")
    ]
    return tuple(
        Goal(f"loop, {name}: ms of lag of our own", "own_max_ms", row, (), "at most", 10.0)
        for name, row in (*small, *large)
    )


def _start_up_goals() -> tuple[Goal, ...]:
    def row(workload: str, variant: str = "aiokafkapy") -> str:
        return _label("start-up", workload, variant)

    first, idle = row("first record"), row("idle producers", "aiokafkapy, 1,000 of them")
    return (
        Goal("import: ms", "p50_ms", row("import"), (), "at most", 120.0),
        Goal("import: MB resident", "peak_rss_mb", row("import"), (), "at most", 30.0),
        Goal("import: CPU of aiokafka's", "cpu_us", row("import"), (row("import", "aiokafka"),), "at most", 1.0),
        Goal("first record: ms from the process's start", "p50_ms", first, (), "at most", 150.0),
        Goal("1,000 idle producers: KB each", "kb_each", idle, (), "at most", 200.0),
        Goal("dev broker: ms until it accepts", "p50_ms", row("broker"), (), "at most", 60.0),
        Goal("dev broker: MB resident", "peak_rss_mb", row("broker"), (), "at most", 40.0),
    )


def _dev_broker_goals() -> tuple[Goal, ...]:
    def row(workload: str, variant: str = "aiokafkapy") -> str:
        return _label("dev broker", workload, variant)

    found = [
        Goal(
            f"dev broker, {batches}: records/s in",
            "rate",
            row("Java in", f"aiokafkapy, {batches}"),
            (),
            "at least",
            150_000.0,
        )
        for batches in (DEFAULT_BATCH, LARGE_BATCH)
    ]
    return (
        *found,
        Goal("dev broker: records/s out", "rate", row("Java out"), (), "at least", 300_000.0),
        Goal("dev broker: p99 of a lone produce, ms", "p99_ms", row("lone produce"), (), "at most", 1.0),
    )


GOALS: Final[tuple[Goal, ...]] = (
    Goal("lone await: p50 of confluent's produce + flush", "p50_ms", _LONE, (_LONE_CONFLUENT,), "at most", 0.95),
    Goal("lone await: p50 of aiokafka's", "p50_ms", _LONE, (_LONE_AIOKAFKA,), "at most", 0.6),
    Goal("lone await: CPU of confluent's produce + flush", "cpu_us", _LONE, (_LONE_CONFLUENT,), "at most", 1.0),
    Goal("lone await: CPU of aiokafka's", "cpu_us", _LONE, (_LONE_AIOKAFKA,), "at most", 0.3),
    Goal("1,000 tasks: rate of aiokafka's, 16 KiB", "rate", _TASKS, (_TASKS_SMALL,), "at least", 5.0),
    Goal("1,000 tasks: rate of aiokafka's, 128 KiB", "rate", _TASKS, (_TASKS_LARGE,), "at least", 4.5),
    Goal("1,000 tasks: CPU of aiokafka's", "cpu_us", _TASKS, (_TASKS_SMALL, _TASKS_LARGE), "at most", 1 / 6),
    Goal("pipelined: rate of aiokafka's", "rate", _PIPE, _PIPE_AIOKAFKA, "at least", 8.0),
    Goal("pipelined: rate of confluent's with callbacks", "rate", _PIPE, (_PIPE_CONFLUENT,), "at least", 2.0),
    Goal("pipelined: rate of Java's", "rate", _PIPE, (_JAVA,), "at least", 1.0),
    Goal("pipelined: CPU of aiokafka's", "cpu_us", _PIPE, _PIPE_AIOKAFKA, "at most", 1 / 8),
    Goal("pipelined: CPU of confluent's with callbacks", "cpu_us", _PIPE, (_PIPE_CONFLUENT,), "at most", 0.4),
    Goal("send_nowait: rate of aiokafka's pipelined", "rate", _NOWAIT, _PIPE_AIOKAFKA, "at least", 12.0),
    Goal("send_nowait: rate of confluent's with callbacks", "rate", _NOWAIT, (_PIPE_CONFLUENT,), "at least", 2.3),
    Goal("send_nowait: µs of CPU", "cpu_us", _NOWAIT, (), "at most", 0.5),
    Goal("send_many: rate of confluent's produce_batch", "rate", _MANY, (_PRODUCE_BATCH,), "at least", 3.0),
    Goal("send_many: rate of Java's", "rate", _MANY, (_JAVA,), "at least", 5.0),
    Goal("send_many: µs of CPU", "cpu_us", _MANY, (), "at most", 0.10),
    Goal("send_arrow: rate of Java's", "rate", _ARROW, (_JAVA,), "at least", 6.0),
    Goal("send_arrow: µs of CPU", "cpu_us", _ARROW, (), "at most", 0.07),
    Goal("pure Python, pipelined: rate of aiokafka's", "rate", _PIPE_PURE, _PIPE_AIOKAFKA, "at least", 2.8),
    Goal(
        "1 KiB, pipelined: CPU of confluent's",
        "cpu_us",
        _kib("pipelined", "aiokafkapy"),
        (_kib("pipelined", "confluent-kafka"),),
        "at most",
        0.5,
    ),
    Goal(
        "1 KiB, send_many: CPU of confluent's produce_batch",
        "cpu_us",
        _kib("send_many", "aiokafkapy"),
        (_kib("produce_batch", "confluent-kafka"),),
        "at most",
        0.5,
    ),
    Goal("10,000 partitions: CPU of 6", "cpu_us", _keyed("10,000"), (_keyed("6"),), "at most", 2.0),
    *_tls_goals(),
    *_transaction_goals(),
    *_codec_goals(),
    *_open_loop_goals(),
    *_web_goals(),
    *_web_open_loop_goals(),
    Goal(
        "50 ms, one partition: rate of one in flight",
        "rate",
        _label("round trip", "50 ms", "aiokafkapy, 5 in flight"),
        (_label("round trip", "50 ms", "aiokafkapy, 1 in flight"),),
        "at least",
        4.0,
    ),
    *_flat_goals(),
    *_memory_goals(),
    *_loop_goals(),
    *_start_up_goals(),
    *_dev_broker_goals(),
)
