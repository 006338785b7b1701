"""The printed report of a run: the table with medians and ranges, the goals, the comparison with an earlier run; and
the README's part, between its markers.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from . import machine
from .goals import Answer, behind_a_peer
from .micro.instructions import recorded_counts
from .results import Results, Row, Spread, best_rows

__all__ = [
    "FOOTNOTE",
    "charts_section",
    "compare",
    "full_markdown",
    "goals_text",
    "put_into_page",
    "readme_section",
    "table",
]

FOOTNOTE: Final = """\
Medians of the rounds; ranges in parentheses. Every measurement in a process of its own, interleaved with its peers; CPU
is user and system time of that process, all threads, per message. acks=all and idempotence everywhere, uvloop for
asyncio. aiokafkapy is on its defaults. The peers: linger 5 ms, none for a lone await; aiokafka with batches of 16 KiB
(its default) and 128 KiB; confluent-kafka with librdkafka's own batches of up to 1 MB, a queue of a million messages
and murmur2 for keys, polled in the sending loop, "lone await" is produce + flush; AIOProducer with a task that polls
beside it and the buffer that suits the workload (1 for a lone await, a quarter of the tasks up to 1,000, else 1,000);
kafka-python and Java (ProducerPerformance, JVM as Kafka's scripts set it up, its warm-up not in the rate but in the
CPU) with batches of 128 KiB. The records of each client were read back by librdkafka's consumer and counted. In the
group "dev broker" a row's client is the broker, and CPU is its. In the groups "open loop" and "web open loop" the rate
is the load's, a share of aiokafka's highest rate, and a latency counts from when its record or request was due."""

# Name, figure, digits after the point.
_COLUMNS: Final = (
    ("rate /s", "rate", 0),
    ("CPU µs", "cpu_us", 3),
    ("p50 ms", "p50_ms", 3),
    ("p99 ms", "p99_ms", 2),
    ("p99.9 ms", "p999_ms", 2),
    ("RSS MB", "peak_rss_mb", 0),
)
LARGE: Final = 100
"""A figure from which on one digit after the point is enough."""
_RANGED: Final = {"rate", "cpu_us"}
# Figures that a table of all groups has no column for.
_EXTRAS: Final = {
    "ratio": ("ratio", 2),
    "growth_ratio": ("growth / buffer_memory", 2),
    "offered": ("offered /s", 0),
    "late_p50_ms": ("sent late p50 ms", 2),
    "late_p99_ms": ("sent late p99 ms", 2),
    "lag_p99_ms": ("lag p99 ms", 2),
    "lag_max_ms": ("lag max ms", 2),
    "held_max_ms": ("held max ms", 2),
    "lone_cpu_us": ("CPU µs of a single send", 1),
    "commits_rate": ("commits/s", 1),
    "commit_p50_ms": ("commit p50 ms", 2),
    "transaction_cpu_us": ("CPU µs a transaction", 0),
    "connection_kb": ("kB a connection", 1),
    "pss_mb": ("PSS MB", 1),
    "modules": ("modules", 0),
    "kb_each": ("KB each", 0),
    "answer_ms": ("first answer after ms", 0),
    "write_rate": ("written /s", 0),
    "read_rate": ("read /s", 0),
    "write_growth": ("growth writing", 2),
    "read_growth": ("growth reading", 2),
    "log_mb": ("log MB", 0),
}

# The README's table: a line for each workload, a cell for each client that has it, and the label of our instructions.
_README_CLIENTS: Final = ("aiokafkapy", "aiokafka", "confluent-kafka", "AIOProducer", "kafka-python", "Java")
_README_ROWS: Final = (
    ("`await send()`, one at a time", "await", ("lone await",), "lone await"),
    ("1,000 tasks that each await", "tasks", ("1,000 tasks",), "1,000 tasks"),
    ("10,000 tasks that each await", "tasks", ("10,000 tasks",), ""),
    ("pipelined, every outcome checked", "pipelined", ("pipelined",), "pipelined enqueue, awaited"),
    ("`send_nowait()`", "send_nowait", ("send_nowait",), "send_nowait"),
    ("`send_many()` · `produce_batch()`", "bulk", ("send_many", "produce_batch"), "send_many"),
    ("`send_arrow()`", "arrow", ("send_arrow",), "send_arrow"),
    ("pipelined, 1 KiB", "1 KiB", ("pipelined",), ""),
    ("web service, requests", "web", ("request",), ""),
)


def table(results: Results, footnote: str = FOOTNOTE) -> str:
    """All rows, by group."""
    width = max((len(_name(row)) for row in results.rows.values()), default=0)
    lines = [f"{'':{width}}" + "".join(f"{name:>{_width(figure)}}" for name, figure, _ in _COLUMNS)]
    for group, rows in groupby(results.rows.values(), lambda row: row.measurement.group):
        lines += ["", group]
        for row in rows:
            lines.append(f"{_name(row):{width}}" + _cells(row))
    return "\n".join([*lines, "", footnote])


def goals_text(answers: Iterable[Answer]) -> str:
    """Each goal with its ratio, met or missed."""
    lines = []
    for answer in answers:
        goal, word = answer.goal, {True: "met", False: "MISSED", None: "-"}[answer.is_met]
        value = "not measured" if answer.value is None else f"{answer.value:.3g}"
        lines.append(f"{word:7} {goal.text}: {value} ({goal.sense} {goal.limit:.3g})")
    return "\n".join(lines)


def compare(new: Results, old: Results) -> str:
    """New over old of each row that both have; an asterisk where the ranges do not even touch."""
    lines = [f"new / old ({old.date}, commit {old.machine.get('commit') or 'unknown'}); * outside both ranges"]
    width = max((len(label) for label in new.rows), default=0)
    for label, row in new.rows.items():
        cells = []
        for name, figure, _ in _COLUMNS[:4]:
            before = old.rows[label].spread(figure) if label in old.rows else None
            after = row.spread(figure)
            if before is not None and after is not None and before.median:
                mark = "*" if _is_apart(after, before) else " "
                cells.append(f"{name.split()[0]} {after.median / before.median:5.2f}{mark}")
        lines.append(f"{label:{width}}  {'  '.join(cells) or 'not in both'}")
    return "\n".join(lines)


def full_markdown(results: Results, answers: Sequence[Answer], footnote: str = FOOTNOTE) -> str:
    """Everything, for the page beside the JSON."""
    head = "| | " + " | ".join(name for name, *_ in _COLUMNS) + " | |"
    lines = [f"# {results.date}", "", machine.in_words(results.machine) + f". {_rounds(results)}.", ""]
    for group, rows in groupby(results.rows.values(), lambda row: row.measurement.group):
        lines += [f"## {group}", "", head, "|---" * (len(_COLUMNS) + 2) + "|"]
        for row in rows:
            cells = [_cell(row, figure, digits) for _, figure, digits in _COLUMNS]
            lines.append(f"| {_name(row)} | " + " | ".join(cells) + f" | {_extras(row)} |")
        lines.append("")
    lines += ["## Goals", "", "| | | limit | |", "|---|---|---|---|"]
    for answer in answers:
        value = "" if answer.value is None else f"{answer.value:.3g}"
        word = {True: "met", False: "**missed**", None: "not measured"}[answer.is_met]
        lines.append(f"| {answer.goal.text} | {value} | {answer.goal.sense} {answer.goal.limit:.3g} | {word} |")
    return "\n".join([*lines, "", footnote, ""])


def readme_section(results: Results) -> str:
    """The README's part: one line for each workload, the comparisons that a peer wins, and links to the rest."""
    found = [(name, best_rows(results, group, rows), label) for name, group, rows, label in _README_ROWS]
    clients = [client for client in _README_CLIENTS if any(client in best for _, best, _ in found)]
    instructions = recorded_counts("compiled")
    lines = [
        textwrap.fill(
            f"One run of `python -m benchmarks`, {_rounds(results)}, values of 100 B, all idempotent, uvloop: "
            f"{machine.in_words(results.machine)}. Medians of messages/s and of CPU per message; "
            "the highest rate is bold, and an empty cell was not measured. AIOProducer is confluent-kafka's; the last "
            "column has aiokafkapy's instructions for a message, counted without a broker:",
            width=120,
            break_on_hyphens=False,
        ),
        "",
        "| | " + " | ".join([*clients, "instructions"]) + " |",
        "|---" * (len(clients) + 2) + "|",
    ]
    for name, best, label in found:
        if best:
            highest = max((_rate(best[client]) for client in _README_CLIENTS if client in best), default=0.0)
            cells = [_readme_cell(best.get(client), highest) for client in clients]
            cells.append(f"{instructions[label]:,.0f}" if label in instructions else "")
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    if ahead := _ahead(results):
        lines += ["", ahead]
    kept = f"benchmarks/results/{results.date}"
    lines += ["", f"Each peer at its best setting; all rows, ranges, settings and goals are in [{kept}.md]({kept}.md)."]
    return "\n".join(lines)


def charts_section(charts: Sequence[Path], page: Path) -> str:
    """The charts, as a page that lies elsewhere shows them."""
    return "\n".join(
        f"![{path.stem.rpartition('-')[2]} by client]({os.path.relpath(path, page.parent)})" for path in charts
    )


def put_into_page(page: Path, section: str, name: str = "benchmarks") -> None:
    """Replace the text between the markers of this name. Raises ValueError when they are not there."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, begun, rest = page.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"{page} has no {begin} ... {end}")
    page.write_text(f"{before}{begin}\n{section}\n{end}{after}")


# internals


def _rounds(results: Results) -> str:
    return "one round" if results.rounds == 1 else f"{results.rounds} interleaved rounds"


def _name(row: Row) -> str:
    return row.measurement.label.partition(" · ")[2]


def _ahead(results: Results) -> str:
    """One line, with the subjects that goals have in common named once; empty when no peer is ahead."""
    found: dict[str, list[str]] = {}
    for answer in behind_a_peer(results):
        subject, _, figure = answer.goal.text.partition(": ")
        found.setdefault(subject, []).append(f"{figure} {answer.value:.3g}")
    if not found:
        return ""
    words = "; ".join(f"{subject}: {', '.join(figures)}" for subject, figures in found.items())
    return f"Of the comparisons that are goals, a peer is ahead in these (ours over theirs): {words}."


def _width(figure: str) -> int:
    return {"rate": 36, "cpu_us": 28}.get(figure, 11)


def _cells(row: Row) -> str:
    if not row.rounds:
        return "  failed" if row.failures else f"  skipped: {row.skipped}" if row.skipped else "  not measured"
    cells = "".join(f"{_cell(row, figure, digits):>{_width(figure)}}" for _, figure, digits in _COLUMNS)
    return f"{cells}  {_extras(row)}" + (f"  failed {len(row.failures)} times" if row.failures else "")


def _cell(row: Row, figure: str, digits: int) -> str:
    spread = row.spread(figure)
    if spread is None:
        return ""
    digits = digits if spread.median < LARGE else min(digits, 1)
    text = f"{spread.median:,.{digits}f}"
    if figure in _RANGED:
        text += f" ({spread.low:,.{digits}f}-{spread.high:,.{digits}f})"
    return text


def _extras(row: Row) -> str:
    found = ((words, digits, row.median(figure)) for figure, (words, digits) in _EXTRAS.items())
    return ", ".join(f"{words} {value:.{digits}f}" for words, digits, value in found if value is not None)


def _is_apart(one: Spread, other: Spread) -> bool:
    return one.low > other.high or one.high < other.low


def _readme_cell(row: Row | None, highest: float) -> str:
    """Rate and CPU; p50 with it where a single send is awaited. The row's highest rate is bold."""
    if row is None:
        return ""
    rate, cpu = _rate(row), row.median("cpu_us") or 0.0
    text = f"{_short(rate)}/s · " + (f"{cpu:,.0f} µs" if cpu >= LARGE else f"{cpu:.3g} µs")
    if row.measurement.workload == "lone await":
        text += f" · p50 {row.median('p50_ms') or 0.0:.3f} ms"
    return f"**{text}**" if rate == highest else text


def _rate(row: Row) -> float:
    return row.median("rate") or 0.0


def _short(rate: float) -> str:
    return f"{rate / 1e6:.2f} M" if rate >= 999_500 else f"{rate:,.0f}"
