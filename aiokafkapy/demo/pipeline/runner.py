"""The pipeline from start to end: the job in a separate process, then the checks, the pictures and the page.

Owns the job's process, its progress display, and the files under ``out``. The embedded broker, if there is one, runs on
this process's loop, so Spark and the comparison run elsewhere.

Rules:

- it deletes only an earlier run's files in ``out``;
- Spark's output goes to ``out/spark.log``, and its end is in the error when the job fails;
- Ctrl-C ends the job's process and its JVM; no process is left running.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ...common import TopicPartition
from ...errors import KafkaError
from ...spark.source.offsets import offsets_to_json
from ..ledger import render_checks
from ..replay import Bar, StopSignal
from .comparison import check_results
from .job import Job, Outcome
from .page import write_page
from .pictures import draw
from .report import PipelineReport
from .results import RESULTS

__all__ = ["MARK", "PipelineError", "PipelineOptions", "check_packages", "clear", "render", "run_pipeline"]

LEFTOVERS: Final = ("parquet", "checkpoints", "read-back")
"""The files of a run in the folder ``out``, which the next run replaces."""
MARK: Final = ".aiokafkapy-pipeline"
"""The file that marks the folder as the pipeline's."""

NEEDED: Final = ("pyspark", "pyarrow", "pandas", "matplotlib")
STOP_TIMEOUT: Final = 15.0
LINES_SHOWN: Final = 15
"""The number of last lines of Spark's log in the error of a failed job."""
LINE_LIMIT: Final = 1 << 20

Progress = Callable[[str, int | None], AbstractContextManager[Bar]]


class PipelineError(KafkaError):
    """The pipeline cannot run, or its job failed; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """The options of the command line. ``limit``: the number of flights in the topic, if not all of them.
    ``starting_offsets`` is as in ``Job``.
    """

    bootstrap_servers: str
    data: Path
    topic: str
    master: str
    out: Path
    limit: int | None
    starting_offsets: str
    conf: dict[str, str]
    """Settings of Spark, over the pipeline's."""


def check_packages() -> None:
    """Raises PipelineError, which says what to install."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise PipelineError(f"the pipeline needs {', '.join(missing)}; run: pip install 'aiokafkapy[demo]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise PipelineError("Spark needs Java 17 or newer, and there is no `java` on the path")


def clear(out: Path) -> None:
    """Make the folder, or remove the files of an earlier run from it. Raises PipelineError if folders of these names
    are not the pipeline's: foreign files are not deleted.
    """
    leftovers = [out / name for name in LEFTOVERS if (out / name).exists()]
    mark = out / MARK
    if leftovers and not mark.exists():
        raise PipelineError(f"{leftovers[0]} is not of an earlier run, which would be replaced: choose another --out")
    for leftover in leftovers:
        shutil.rmtree(leftover, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    mark.touch()


async def run_pipeline(
    options: PipelineOptions, cluster: str, stop: StopSignal, progress: Progress
) -> PipelineReport | None:
    """Run it; None when the user asked to stop. Raises PipelineError."""
    check_packages()
    began = time.monotonic()
    clear(options.out)
    ends = await _prepare_topics(options)
    job = Job(
        bootstrap_servers=options.bootstrap_servers,
        topic=options.topic,
        out=str(options.out.resolve()),
        master=options.master,
        starting_offsets=options.starting_offsets,
        result_offsets=ends,
        conf=options.conf,
    )
    try:
        outcome = await _run_job(job, options.out / "spark.log", stop, progress)
    finally:
        shutil.rmtree(options.out / "shipped", ignore_errors=True)  # the package that the executors were sent
    if outcome is None:
        return None
    with progress("checking against pandas, drawing", None):
        return await asyncio.to_thread(_finish, options, cluster, outcome, began)


def _finish(options: PipelineOptions, cluster: str, outcome: Outcome, began: float) -> PipelineReport:
    import pandas as pd

    read_back = options.out / "read-back"
    checks = check_results(outcome, read_back, options.data, options.limit)
    frames = {result.name: pd.read_parquet(read_back / f"{result.name}.kafka.parquet") for result in RESULTS}
    pictures = draw(frames, options.out)
    rows = {name: len(frame) for name, frame in frames.items()}
    report = PipelineReport(cluster, options.topic, options.out, outcome, rows, checks, time.monotonic() - began)
    write_page(report, pictures, report.page)
    return report


def render(report: PipelineReport) -> list[str]:
    """The report as lines of text, one fact per line."""
    facts = [f"  {name}: {value}" for name, value in report.facts().items()]
    return ["", *facts, "", *render_checks(report.checks), "", f"  report with pictures: {report.page}"]


async def _prepare_topics(options: PipelineOptions) -> dict[str, str]:
    """Make the results' topics; returns their end offsets in Spark's form."""
    from ...admin import TopicAdmin
    from ...errors import TopicAlreadyExistsError
    from ...reader import PartitionReader

    names = {result.name: result.topic(options.topic) for result in RESULTS}
    async with TopicAdmin(options.bootstrap_servers) as admin:
        for topic in names.values():
            with contextlib.suppress(TopicAlreadyExistsError):
                await admin.create(topic, partitions=1)
    ends = {}
    async with PartitionReader(options.bootstrap_servers) as reader:
        for name, topic in names.items():
            partitions = [TopicPartition(topic, one.partition) for one in await reader.partitions_for(topic)]
            ends[name] = json.dumps(offsets_to_json(await reader.end_offsets(partitions)))
    return ends


async def _run_job(job: Job, log: Path, stop: StopSignal, progress: Progress) -> Outcome | None:
    async with _job_process(job, log) as (process, events):
        outcome = None
        following = asyncio.ensure_future(_follow(events, progress, log))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                return None
            outcome = await following
        finally:
            following.cancel()
            stopping.cancel()
            await asyncio.gather(following, stopping, return_exceptions=True)
        if outcome is None:
            raise PipelineError(_failure(await process.wait(), log))
        return outcome


async def _follow(events: asyncio.StreamReader, progress: Progress, log: Path) -> Outcome | None:
    """Show each step while it lasts; returns the outcome, or None if the process ended without one."""
    with contextlib.ExitStack() as shown:
        bar: Bar | None = None
        async for line in events:
            event = json.loads(line)
            if "done" in event:
                return Outcome(**event["done"])
            if "failed" in event:
                raise PipelineError(f"the Spark job failed; {log} has all of it:\n{event['failed']}")
            if "step" in event:
                shown.close()
                bar = shown.enter_context(progress(event["step"], None))
            elif bar is not None:
                bar.update(event["progress"])
    return None


@contextlib.asynccontextmanager
async def _job_process(job: Job, log: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, asyncio.StreamReader]]:
    """The job's process and its events; the process, its JVM and workers are ended at the end of the block."""
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    events = asyncio.StreamReader(limit=LINE_LIMIT)
    pipe = os.fdopen(reading, "rb")
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(events), pipe)
    try:
        with log.open("wb") as target:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "aiokafkapy.demo.pipeline.job",
                json.dumps(asdict(job)),
                str(writing),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=target,
                stderr=target,
                pass_fds=(writing,),
                # A process group of its own: killed with its JVM and workers, and not reached by the terminal's Ctrl-C.
                start_new_session=True,
            )
    finally:
        os.close(writing)
    try:
        yield process, events
    finally:
        transport.close()
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT):
                await process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _failure(code: int, log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace")
    end = "\n".join(text.strip().splitlines()[-LINES_SHOWN:])
    return f"the Spark job ended with code {code}; {log} has all of this:\n{end}"
