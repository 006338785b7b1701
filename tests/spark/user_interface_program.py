"""Run by ``test_security``: all kinds of queries on a secured listener, in a Spark with web interface and event log.

Argument: a folder for Spark. Standard input: JSON with ``settings`` of Spark's, ``options``, the sets of options to use
in turn, and the topics ``source`` and ``sink``. Spark's pages are left in the folder ``shown``: each page of the
interface and each answer of its REST API, the event log, plans, the progress of the streams and their checkpoints.
Prints how many pages there were.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from html import unescape
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.conftest import SESSION, start_session, stop_session

PATIENCE: Final = 120
FORMAT: Final = "aiokafkapy"
MOST_PAGES: Final = 400
EXPLAIN_MODES: Final = ("simple", "extended", "codegen", "cost", "formatted")
# Pages that stop something, or show the JVM's own state.
LEFT_OUT: Final = re.compile(r"/kill|threadDump|heapHistogram|/static/|\.(css|js|png|svg|ico)$")
REST: Final = (
    "environment",
    "jobs",
    "stages?details=true",
    "executors",
    "storage/rdd",
    "sql?details=true&planDescription=true&length=1000",
    "streaming/statistics",
)


class Shown:
    """The files that keep Spark's pages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0
        folder.mkdir()

    def keep(self, name: str, text: str) -> None:
        """Under a telling name."""
        self._count += 1
        (self.folder / f"{self._count:04}-{re.sub('[^A-Za-z0-9]+', '-', name)[:80]}").write_text(text)


def run_queries(session: SparkSession, given: Mapping[str, Any], folder: Path, shown: Shown) -> None:
    """Each set of options in every kind of query that has options."""
    for number, options in enumerate(given["options"]):
        reading = {**options, "subscribe": given["source"], "startingOffsets": "earliest"}
        writing = {**options, "topic": given["sink"]}
        run_batches(session, reading, writing, shown)
        run_views(session, number, reading, shown)
        run_stream(session, reading, writing, folder / f"checkpoint-{number}", shown)


def run_batches(session: SparkSession, reading: Mapping[str, str], writing: Mapping[str, str], shown: Shown) -> None:
    """A write, a read, a read that is cached, and reads and writes that are refused, late and early."""
    frame = session.range(20).selectExpr("cast(id as string) as value")
    frame.write.format(FORMAT).options(**writing).mode("append").save()
    read = session.read.format(FORMAT).options(**reading).load()
    read.cache().groupBy("topic").count().collect()
    keep_plans(read, "batch", shown)
    for wrong in ({"subscribe": "no-such-topic"}, {"startingoffsets": "never"}, {"kafka.lingerms": "1"}):
        with suppress(PySparkException):
            session.read.format(FORMAT).options(**{**reading, **wrong}).load().count()
    with suppress(PySparkException):
        session.range(1).write.format(FORMAT).options(**writing).mode("overwrite").save()
    failing = session.range(1).selectExpr("raise_error('in a task') as value")
    with suppress(PySparkException):
        failing.write.format(FORMAT).options(**writing).mode("append").save()


def run_views(session: SparkSession, number: int, reading: Mapping[str, str], shown: Shown) -> None:
    """Options that are written in SQL."""
    written = ", ".join(f"`{name}` '{value.replace(chr(39), chr(92) + chr(39))}'" for name, value in reading.items())
    made = session.sql(f"CREATE TEMPORARY VIEW view_{number} USING {FORMAT} OPTIONS ({written})")
    keep_plans(made, "create view", shown)
    view = session.sql(f"SELECT value FROM view_{number}")
    view.collect()
    keep_plans(view, "view", shown)
    for command in (f"DESCRIBE EXTENDED view_{number}", f"SHOW TBLPROPERTIES view_{number}"):
        with suppress(PySparkException):
            shown.keep(command, str(session.sql(command).collect()))


def run_stream(
    session: SparkSession, reading: Mapping[str, str], writing: Mapping[str, str], checkpoint: Path, shown: Shown
) -> None:
    """Run a stream from topic to topic, and once into a topic that is refused."""
    rows = session.readStream.format(FORMAT).options(**reading).load().select("value")
    for topic in (writing["topic"], "no such topic"):
        options = {**writing, "topic": topic, "checkpointLocation": str(checkpoint / topic)}
        writer = rows.writeStream.format(FORMAT).options(**options).queryName(topic).trigger(availableNow=True)
        query = writer.start()
        with suppress(PySparkException):
            query.awaitTermination(PATIENCE)
        shown.keep("stream", f"{query.lastProgress}\n{query.recentProgress}\n{query.status}\n{query.exception()}")
        shown.keep("stream plan", str(query._jsq.explainInternal(True)))
    for path in checkpoint.rglob("*"):
        if path.is_file():
            shown.keep(f"checkpoint {path.name}", path.read_bytes().decode("latin-1"))


def keep_plans(frame: DataFrame, name: str, shown: Shown) -> None:
    """Keep the plans as ``explain`` prints them, and as an error's text has them."""
    machine = frame.sparkSession._jvm
    assert machine is not None
    execution, utilities = frame._jdf.queryExecution(), machine.PythonSQLUtils
    explained = [utilities.explainString(execution, mode) for mode in EXPLAIN_MODES]
    shown.keep(f"plans {name}", "\n".join([*explained, execution.toString()]))


def keep_pages(address: str, application: str, shown: Shown) -> int:
    """Every page that can be reached from the first, and the REST API's answers; returns how many."""
    waiting = [address, *(f"{address}/api/v1/applications/{application}/{path}" for path in REST)]
    seen = set(waiting)
    count = 0
    while waiting and count < MOST_PAGES:
        page = waiting.pop(0)
        try:
            with urllib.request.urlopen(page, timeout=PATIENCE) as answer:
                text = answer.read().decode("latin-1")
        except urllib.error.HTTPError as error:
            text = error.read().decode("latin-1")
        shown.keep(page.removeprefix(address), text)
        count += 1
        for link in new_links(page, text, seen):
            seen.add(link)
            waiting.append(link)
    return count


def new_links(page: str, text: str, seen: set[str]) -> Sequence[str]:
    """The links of a page, on the same host."""
    links = (urljoin(page, unescape(found)).partition("#")[0] for found in re.findall(r'href="([^"#][^"]*)"', text))
    host = urlsplit(page).netloc
    return [
        link
        for link in dict.fromkeys(links)
        if urlsplit(link).netloc == host and link not in seen and not LEFT_OUT.search(link)
    ]


def main(folder: Path, given: Mapping[str, Any]) -> None:
    """Run everything, and keep the pages of it."""
    events = folder / "events"
    events.mkdir()
    settings = SESSION | {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.sql.maxPlanStringLength": "1000000",
        "spark.sql.debug.maxToStringFields": "1000",
        **given["settings"],
    }
    shown = Shown(folder / "shown")
    session = start_session(folder, settings)
    session.sparkContext.setLogLevel("INFO")
    try:
        run_queries(session, given, folder, shown)
        context = session.sparkContext
        assert context.uiWebUrl is not None
        print("pages:", keep_pages(context.uiWebUrl, context.applicationId, shown))
    finally:
        stop_session(session)
    for path in events.rglob("*"):
        if path.is_file():
            shown.keep(f"event log {path.name}", path.read_bytes().decode("latin-1"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.load(sys.stdin))
