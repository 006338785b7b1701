"""The demo from start to end: data, broker, service, replay, reading back, the Spark pipeline, report.

Owns the sequence of steps, starts and stops, and the handling of Ctrl-C; other modules implement the steps.

Rules:

- The embedded broker runs in this process, on this loop. The service is a separate process, so that HTTP is real and
  the two cores of a laptop share the work.
- The first ``http_flights`` flights go through HTTP, and once all are answered the rest directly, so the order per key
  is the order of departure and can be checked over both.
- After Ctrl-C no more records are sent; those already sent are awaited, read back and checked, and the report says
  that it is incomplete. A second Ctrl-C ends the demo at once.
- The pipeline starts at the first offsets of this run, and is skipped after an interruption.
- The service is always stopped and the broker always closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..common import TopicPartition
from ..errors import KafkaError, TopicAlreadyExistsError
from ..spark.source.offsets import offsets_to_json
from .flights import DataFileMissingError, Flight, find_data_file, load_flights
from .ledger import Ledger
from .pipeline.report import PipelineReport
from .pipeline.runner import PipelineOptions, run_pipeline
from .pipeline.runner import check_packages as check_pipeline_packages
from .replay import Bar, Replay, StopSignal, replay_directly, replay_over_http
from .report import Load, Report, percentile_ms

if TYPE_CHECKING:
    from ..producer.producer import KafkaProducer

__all__ = ["DemoError", "DemoOptions", "run_demo", "run_pipeline_alone"]

PARTITIONS: Final = 6
KEPT_FOR_EVER: Final = {"retention.ms": "-1"}
START_TIMEOUT: Final = 30.0
"""Seconds for the service to listen and to be ready."""
STOP_TIMEOUT: Final = 15.0
NEEDED: Final = ("fastapi", "uvicorn", "aiohttp")
QUIET_WAIT: Final = 1.0

Progress = Callable[[str, int | None], AbstractContextManager[Bar]]


class DemoError(KafkaError):
    """The demo cannot run; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of the command line; those with a default are only of ``run_demo``."""

    bootstrap_servers: str | None
    topic: str
    http_flights: int = 0
    clients: int = 1
    limit: int | None
    nodes: int
    data: Path | None
    pipeline: bool = True
    """True if the Spark pipeline follows."""
    master: str
    out: Path
    conf: dict[str, str]
    console: str | None = None
    """The address of a console that shows the demo, as HOST:PORT."""
    on_console: Callable[[str], object] = print
    """Called with the console's address."""


@dataclass(frozen=True, slots=True)
class _Run:
    """The arguments of every step."""

    options: DemoOptions
    servers: str
    cluster: str
    """The cluster's name in the report."""
    stop: StopSignal
    progress: Progress


async def run_demo(options: DemoOptions, stop: StopSignal, progress: Progress) -> Report:
    """Run the demo, and return its report. Raises DemoError or DataFileMissingError if it cannot begin."""
    _check_packages()
    if options.pipeline:
        check_pipeline_packages()
    path = _data_file(options)
    flights = await _load(path, options.limit, progress)
    async with _cluster(options) as (servers, cluster):
        run = _Run(options, servers, cluster, stop, progress)
        await _make_topic(servers, options.topic)
        starts = await _end_offsets(servers, options.topic)
        ledger = Ledger(flights)
        report = Report(cluster, options.topic, len(flights))
        count = min(options.http_flights, len(flights))
        if count and not stop.is_requested:
            report.http = await _over_http(run, flights[:count], ledger)
        if not stop.is_requested and count < len(flights):
            report.direct = await _directly(run, flights[count:], ledger)
        report.was_interrupted = stop.is_requested
        report.read_back = await _read_back(servers, starts, ledger, progress)
        if options.pipeline and not stop.is_requested:
            report.pipeline = await _pipeline(run, path, starts)
            report.was_interrupted = stop.is_requested
    report.checks = ledger.checks(was_interrupted=report.was_interrupted)
    report.troubles = [text for found in ledger.examples.values() for text in found]
    report.troubles += [f"{times:,} times: {reason}" for reason, times in ledger.failures.most_common(5)]
    return report


async def run_pipeline_alone(options: DemoOptions, stop: StopSignal, progress: Progress) -> PipelineReport | None:
    """The pipeline on the flights in the topic; a missing or empty topic is filled first.

    None if the user asked to stop. Raises DemoError, PipelineError or DataFileMissingError.
    """
    check_pipeline_packages()
    path = _data_file(options)
    async with _cluster(options) as (servers, cluster):
        run = _Run(options, servers, cluster, stop, progress)
        await _make_topic(servers, options.topic)
        if not any((await _end_offsets(servers, options.topic)).values()):
            flights = await _load(path, options.limit, progress)
            ledger = Ledger(flights)
            await _directly(run, flights, ledger)
            if ledger.failed or ledger.unanswered:
                reasons = "; ".join(reason for reason, _ in ledger.failures.most_common(3))
                raise DemoError(f"not every flight got into topic {options.topic}: {reasons}")
        if stop.is_requested:
            return None
        return await _pipeline(run, path, None)


def _data_file(options: DemoOptions) -> Path:
    path = options.data or find_data_file()
    if not path.is_file():
        raise DataFileMissingError(f"there is no file {path}")
    return path


async def _load(path: Path, limit: int | None, progress: Progress) -> list[Flight]:
    with progress("reading the file", None) as bar:
        flights = await asyncio.to_thread(load_flights, path, limit)
        bar.update(len(flights))
    return flights


async def _pipeline(run: _Run, path: Path, starts: dict[TopicPartition, int] | None) -> PipelineReport | None:
    offsets = "earliest" if starts is None else json.dumps(offsets_to_json(starts))
    options = run.options
    wanted = PipelineOptions(
        bootstrap_servers=run.servers,
        data=path,
        topic=options.topic,
        master=options.master,
        out=options.out,
        limit=options.limit,
        starting_offsets=offsets,
        conf=options.conf,
    )
    return await run_pipeline(wanted, run.cluster, run.stop, run.progress)


def _check_packages() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise DemoError(f"the demo needs {', '.join(missing)}; run: pip install 'aiokafkapy[demo]'")


@contextlib.asynccontextmanager
async def _cluster(options: DemoOptions) -> AsyncIterator[tuple[str, str]]:
    """Bootstrap servers, and the cluster's name in the report."""
    if options.bootstrap_servers is not None:
        async with contextlib.AsyncExitStack() as clean_up:
            if options.console is not None:
                from ..console import Console

                page = Console.of_cluster(options.bootstrap_servers, address=options.console)
                options.on_console((await clean_up.enter_async_context(page)).url)
            yield options.bootstrap_servers, f"Kafka at {options.bootstrap_servers}"
        return
    from ..broker import DevBroker

    async with DevBroker(options.nodes, console=options.console or False) as broker:
        if options.console is not None:
            options.on_console(broker.console.url)
        nodes = f"{options.nodes} node{'' if options.nodes == 1 else 's'}"
        yield broker.bootstrap_servers, f"embedded broker with {nodes}"


async def _make_topic(servers: str, topic: str) -> None:
    from ..admin import TopicAdmin

    async with TopicAdmin(servers) as admin:
        # The records' timestamps are from 2013: with a retention of a week, brokers would delete them at once.
        try:
            await admin.create(topic, partitions=PARTITIONS, configs=KEPT_FOR_EVER)
        except TopicAlreadyExistsError:
            configs = await admin.configs(topic)
            if KEPT_FOR_EVER.items() - configs.items():
                raise DemoError(
                    f"topic {topic} is there already and may drop records as old as these flights: give another"
                    f" --topic, or delete it with: aiokafkapy topics delete {topic}"
                ) from None


async def _end_offsets(servers: str, topic: str) -> dict[TopicPartition, int]:
    """The offsets at which our records will begin: an existing topic may have others."""
    from ..reader import PartitionReader

    async with PartitionReader(servers) as reader:
        partitions = await reader.partitions_for(topic)
        return await reader.end_offsets(TopicPartition(topic, one.partition) for one in partitions)


async def _over_http(run: _Run, flights: list[Flight], ledger: Ledger) -> Load:
    clients = run.options.clients
    async with _service(run.servers, run.options.topic) as url:
        with run.progress("flights over HTTP", len(flights)) as bar:
            begun = time.perf_counter()
            latencies = await replay_over_http(Replay(flights, ledger, run.stop, bar), f"{url}/flights", clients)
            load = Load(len(latencies), time.perf_counter() - begun, clients=clients)
        figures = await _get_json(f"{url}/figures")
    latencies.sort()
    sends = sorted(figures["send_seconds"])
    load.http_p50_ms, load.http_p99_ms = percentile_ms(latencies, 0.5), percentile_ms(latencies, 0.99)
    load.send_p50_ms, load.send_p99_ms = percentile_ms(sends, 0.5), percentile_ms(sends, 0.99)
    load.take_metrics(figures["metrics"])
    return load


async def _directly(run: _Run, flights: list[Flight], ledger: Ledger) -> Load:
    from ..producer.producer import KafkaProducer

    async with KafkaProducer(run.servers) as producer, _at_once_when_cancelled(producer):
        before = ledger.acknowledged
        with run.progress("flights directly", len(flights)) as bar:
            begun = time.perf_counter()
            await replay_directly(Replay(flights, ledger, run.stop, bar), producer, run.options.topic)
            load = Load(ledger.acknowledged - before, time.perf_counter() - begun)
        load.take_metrics(producer.metrics())
    return load


@contextlib.asynccontextmanager
async def _at_once_when_cancelled(producer: KafkaProducer[Any, Any]) -> AsyncIterator[None]:
    """On cancellation (a second Ctrl-C) undelivered records fail, without waiting."""
    try:
        yield
    except asyncio.CancelledError:
        await producer.close(0)
        raise


async def _read_back(servers: str, starts: dict[TopicPartition, int], ledger: Ledger, progress: Progress) -> Load:
    """Read from the start offsets to the current ends, which are after all acknowledged records."""
    from ..reader import PartitionReader

    load = Load()
    async with PartitionReader(servers) as reader:
        ends = await reader.end_offsets(starts)
        open_partitions = {tp for tp, end in ends.items() if end > starts[tp]}
        reader.assign(open_partitions)
        for tp in open_partitions:
            reader.seek(tp, starts[tp])
        begun = time.perf_counter()
        with progress("reading back", sum(ends[tp] - starts[tp] for tp in ends)) as bar:
            while open_partitions:
                found = await reader.fetch_partition(QUIET_WAIT)
                if found is None:
                    continue
                tp = found.topic_partition
                records = [record for record in found.records if record.offset < ends[tp]]
                ledger.record_found(records)
                load.records += len(records)
                bar.update(load.records)
                if (reader.position(tp) or 0) >= ends[tp]:
                    open_partitions.discard(tp)
                    reader.assign(open_partitions)
        load.seconds = time.perf_counter() - begun
    return load


@contextlib.asynccontextmanager
async def _service(servers: str, topic: str) -> AsyncIterator[str]:
    """The service's process, ready, and its address; it is stopped at the end, after it has answered the requests in
    flight.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "aiokafkapy.demo.service",
        "--bootstrap-servers",
        servers,
        "--topic",
        topic,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # Shielded from the terminal's Ctrl-C: the requests in flight must be answered first.
        start_new_session=True,
    )
    try:
        yield await _wait_until_ready(process)
    except BaseException:
        # Cancelled, or no more requests will come: the service need not answer those in flight.
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        raise
    finally:
        await _stop_process(process)


async def _wait_until_ready(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_TIMEOUT):
            line = await process.stdout.readline()
            if not line:
                raise DemoError(f"the service ended with code {await process.wait()} before it listened; see above")
            url = f"http://127.0.0.1:{json.loads(line)['port']}"
            while True:
                with contextlib.suppress(OSError):
                    await _get_json(f"{url}/readyz")
                    return url
                if process.returncode is not None:
                    raise DemoError(f"the service ended with code {process.returncode} before it was ready; see above")
                await asyncio.sleep(0.05)
    except TimeoutError as error:
        raise DemoError(f"the service was not ready within {START_TIMEOUT:g} s") from error


async def _stop_process(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
    if process.stdin is not None:
        process.stdin.close()


async def _get_json(url: str) -> Any:
    """One GET; OSError for anything but 200."""
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(url) as response:
        if response.status != 200:
            raise OSError(f"{url} answered {response.status}")
        return await response.json()
