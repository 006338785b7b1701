"""``send_arrow``: the rows of a table in one call, and one result for all of them.

Owns the cutting of a table into windows, the partitions that the rows of a topic may go to, the treatment of rows that
cannot be sent, and the turns between slices. Rows are planned and encoded by ``record/arrow_rows``, from the table's
buffers; ``RecordAppender.append_rows`` gives them places in batches. It knows no sockets. Java has no counterpart.

Rules:

- The table's columns are checked before its first row is sent, and its buffers are released as they are encoded.
- Within a partition rows keep their order. Between two slices other tasks run, and may send.
- A table takes half of ``buffer_memory`` and waits for its own records then, so that others find room beside it.
- A row that finds no room, or that comes behind others which wait, goes the way of ``enqueue``, and the rows after it
  wait with it. With interceptors, or a user's partitioner, all rows go this way, because these see every
  row.
- Rows of a topic that a spool takes without its partitions go this way too. If the spool is full, one row waits for
  room, and those after it in the window are only tried.
- A row that cannot be sent does not stop others. When the producer is closed, no more rows are taken.
- A partition that does not exist is requested once in a call; its rows then fail at once.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from ...errors import (
    BufferExhaustedError,
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    MetadataTimeoutError,
    ProducerClosedError,
    SerializationError,
    UnknownTopicOrPartitionError,
)
from ...record.arrow import BatchReader, ColumnNames, RecordTable, TableSchema, open_table
from ...record.arrow_rows import PLANNED_ROWS, SLICE_BYTES, ArrowRows
from ...record.builder import RecordBatchBuilder
from ...record.columns import NULL_TOPIC, Route
from ..arguments import EarlyTime, topic_name
from ..deliveries.delivery import Delivery, place_of
from ..deliveries.kept_errors import kept_error
from ..deliveries.shortcuts import now_ms
from ..intake.call_overflow import check_overflow, with_overflow
from ..intake.partitioners import DefaultPartitioner
from ..intake.record_intake import RecordIntake
from ..intake.record_sender import admitted, admitted_at_once
from ..records import CallOverflow
from .row_places import RowPlaces
from .table_metadata import TableMetadata

__all__ = ["ArrowSend"]

COST_OF_SINGLE_ROW: Final = 1024
"""Bytes that a row counts for if it goes the way of ``enqueue`` or fails: it takes as long as several others."""
COST_OF_ROUTE: Final = 512
COST_OF_REFUSAL: Final = 32
"""The same for one topic of a window, and for a row that is known to fail before its turn."""
ROWS_PER_LANE: Final = 256
"""Rows planned at a time for each partition, within bounds: every batch has a fixed cost."""
STEPS: Final = 8
"""A table's half of the memory is filled in about as many steps, or in more if a slice is smaller."""
NO_ROUTE: Final = Route(0, 0)


class ArrowSend:
    """One table on its way: ``open()``, then ``run()``, or ``append()`` and ``outcome()``."""

    def __init__(self, intake: RecordIntake, overflow: CallOverflow | None = None) -> None:
        self._intake = intake
        self._overflow = overflow
        self._runtime = intake.accepting_runtime()
        self._opening = intake.opening
        partitioner = intake.partitioner
        self._is_plain = not intake.shows_each_record
        self._hashes_keys = isinstance(partitioner, DefaultPartitioner) and not partitioner.ignore_keys
        # The table
        self._topic: str | None = None
        self._names = ColumnNames()
        self._schema: TableSchema  # from ``open()`` on
        self._table: RecordTable | None = None
        # The places for rows: a topic's lanes are made once, and again when it got more partitions
        self._routes: dict[str, Route] = {}
        self._first_lanes: list[int] = []
        self._lane_routes: list[tuple[str, Route]] = []
        self._next_lane = 1
        self._is_uniform = True
        self._sticky_bytes: dict[str, int] = {}
        self._topic_errors: dict[str, KafkaError] = {}
        self._is_refreshed = False
        # The outcomes of the rows
        self._places = RowPlaces()
        self._bytes = 0
        self._is_ended = False
        self._end_error: KafkaError = ProducerClosedError()
        self._unyielded = 0
        # True when the other half of the memory may be taken too
        self._is_pressed = False

    def open(self, topic: str | None, data: object, names: ColumnNames) -> None:
        """Look at a table and its columns; raises an error for each fault. The caller releases ``data``."""
        self._topic = None if topic is None else topic_name(topic)
        if self._overflow is not None:
            check_overflow(self._runtime.config, topic, self._overflow)
        _check_names(names)
        table = open_table(data)
        self._schema = TableSchema(table.schema, names, self._topic)
        for part in ("key", "value"):
            if part in self._schema.indices and getattr(self._runtime.config, f"{part}_serializer") is not None:
                raise IllegalStateError(
                    f"send_arrow() sends a table's bytes as they are, and this producer has a {part}_serializer: "
                    "use a producer without one"
                )
        has_key = self._hashes_keys and "key" in self._schema.indices
        # Without any of these a row's partition is chosen batch by batch.
        self._is_uniform = not has_key and not {"partition", "topic"} & self._schema.indices.keys()
        self._names, self._table = names, table

    async def run(self, *, return_exceptions: bool) -> TableMetadata:
        """Send all rows, wait for their outcomes, and return them, or raise the first error.

        Also raises CancelledError and any error of reading the stream.
        """
        await self.append()
        metadata = await self.outcome()
        failed = metadata.failed
        if failed and not return_exceptions:
            row = next(iter(failed))
            error = failed[row]
            error.add_note(
                f"{len(failed)} of {metadata.rows} rows of send_arrow() failed, row {row} first; "
                "with return_exceptions=True the result has each error, and raise_all() raises all errors"
            )
            if isinstance(error, KafkaError):
                error.add_note(f"what to do: {error.remedy}")
            raise error
        return metadata

    async def append(self) -> None:
        """Put all rows into batches; raises the errors of reading a stream."""
        topic, accumulator = self._topic if self._is_plain else None, self._runtime.accumulator
        if topic is None:
            return await self._append_all()
        accumulator.begin_bulk(topic)
        try:
            await self._append_all()
        finally:
            accumulator.end_bulk(topic)

    async def outcome(self) -> TableMetadata:
        """Wait until every row has its outcome, and return them."""
        await self._places.settled()
        return TableMetadata(self._places, self._bytes)

    # tables, batches, windows

    async def _append_all(self) -> None:
        table, self._table = self._table, None
        is_stream = table is None or table.row_count is None
        batches = iter(()) if table is None else table.batches
        while not (is_stream and self._is_ended):
            if is_stream:
                # A stream's next batch may come from a disk or a network.
                batch = await self._runtime.loop.run_in_executor(None, next, batches, None)
            else:
                batch = next(batches, None)
            if batch is None:
                return
            await self._send_batch(BatchReader(batch, self._schema))
            batch = None  # this may be the last reference to the buffers, and the next batch may take its time

    async def _send_batch(self, reader: BatchReader) -> None:
        start = 0
        while start < reader.row_count:
            if self._is_over():
                self._places.begin_window(reader.row_count - start, None)
                self._places.add_failed(reader.row_count - start, self._end_error)
                return
            columns, topics = reader.window(start, self._window_rows())
            topics = [self._topic] if topics is None else topics
            start += columns.row_count
            rows = ArrowRows(columns, hashes_keys=self._hashes_keys)
            if self._is_plain and not await self._have_unknown(topics):
                await self._send_window(rows, columns.row_count, topics)
            else:
                await self._send_one_by_one(rows, columns.row_count, topics)
            self._bytes += rows.encoded_bytes

    def _window_rows(self) -> int:
        """Rows for one look at the columns: more if a plan has many partitions to spread them over."""
        if self._is_uniform:
            return PLANNED_ROWS
        # The topics of a window are made into numbers in one step.
        most = PLANNED_ROWS // 8 if "topic" in self._schema.indices else PLANNED_ROWS
        return min(most, max(PLANNED_ROWS // 16, ROWS_PER_LANE * self._next_lane))

    async def _send_window(self, rows: ArrowRows, count: int, topics: Sequence[str | None]) -> None:
        batch_size = self._runtime.config.batch_size
        start = 0
        while start < count:
            routes = []
            for topic in topics:
                routes.append(await self._route(topic))
                await self._yield_when_due()
            is_planned = rows.plan(start, count, routes, batch_size)
            while not is_planned:
                await asyncio.sleep(0)
                is_planned = rows.plan_on()
            if rows.refused and not self._is_refreshed and _is_partition_missing(rows, routes):
                self._is_refreshed = True
                with suppress(KafkaError):  # a close of the producer meanwhile is noticed later
                    await self._runtime.metadata_refreshed()
                continue
            start += rows.planned
            self._places.begin_window(rows.planned, rows.lanes())
            if rows.refused:
                self._unyielded += rows.refused * COST_OF_REFUSAL
                self._refuse(rows, topics, routes)
            if not self._is_uniform:
                for topic, sticky_bytes in zip(topics, rows.sticky_bytes, strict=True):
                    if topic and sticky_bytes:
                        self._sticky_bytes[topic] = self._sticky_bytes.get(topic, 0) + sticky_bytes
            self._unyielded += rows.planned
            while rows.position < rows.planned:
                if self._is_over():
                    self._fail(rows, rows.planned)
                else:
                    await self._send_some(rows)
                await self._yield_when_due()

    async def _send_one_by_one(self, rows: ArrowRows, count: int, topics: Sequence[str | None]) -> None:
        self._places.begin_window(count, None)
        full: set[str] = set()
        for row in range(count):
            if self._is_over():
                self._places.add_failed(count - row, self._end_error)
                return
            number = rows.topic_of(row)
            topic = None if number == NULL_TOPIC else topics[number]
            if not topic:
                self._places.add_failed(1, _no_topic_error(self._names))
            elif self._is_plain and await self._is_nowhere(topic):
                self._places.add_failed(1, self._topic_errors[topic].fresh())
            else:
                error = await self._send_row(rows, row, topic, rows.partition_of(row), may_wait=topic not in full)
                if error is None:
                    full.discard(topic)
                elif self._is_plain and self._is_spool_full(topic, error):
                    full.add(topic)
            await self._yield_when_due()

    # rows

    async def _send_some(self, rows: ArrowRows) -> None:
        """Append planned rows of one topic for as long as there is room, and time; else let the first one wait."""
        runtime = self._runtime
        lane = rows.lane_at(rows.position)
        topic, route = self._lane_routes[bisect_right(self._first_lanes, lane) - 1]
        # Half of the memory is left to others, unless no row of this call moves.
        budget = SLICE_BYTES - self._unyielded
        half = runtime.config.buffer_memory // 2
        own_share = half - runtime.accumulator.buffered_bytes
        if own_share > 0:
            self._is_pressed = False
        elif not self._is_pressed and self._places.outstanding:
            await self._wait_for_progress(topic)
            return
        if not self._is_pressed:
            # In steps that are worth their cost: memory is paid for by the block, and the last one has room for many
            # rows.
            budget = min(budget, max(own_share, half // STEPS, 1))
        now = runtime.now()
        state = runtime.admission.refresh(topic, now)
        has_room, is_unknown = False, not state.partition_count
        if is_unknown and not runtime.admission.takes_unknown(topic):
            if await self._route(topic) is NO_ROUTE:
                self._fail(rows, rows.end_of_lane(rows.position), self._topic_errors[topic])
            return
        if not is_unknown and state.waiting is None and self._intake.lets_through(topic):
            rows.now_ms = now_ms()
            encoded = rows.encoded_bytes
            try:
                has_room = runtime.accumulator.appender.append_rows(
                    rows, self._places, topic, route.first_lane, route.first_lane + route.partition_count,
                    encoded + budget, now, state.cluster,
                )  # fmt: skip
            except KafkaError as error:
                self._fail(rows, rows.position + 1, error)
                return
            finally:
                self._unyielded += rows.encoded_bytes - encoded
        if not has_room and rows.position < rows.planned:
            # The lane may be another one by now, but its topic is the same: no room is no reason to leave a topic.
            partition = rows.lane_at(rows.position) - route.first_lane - 1
            await self._send_row(rows, rows.row_at(rows.position), topic, None if partition < 0 else partition)
            rows.position += 1

    async def _wait_for_progress(self, topic: str) -> None:
        """Wait until a run of this call has its outcome; after ``max_block_ms`` take the other half too."""
        runtime = self._runtime
        if runtime.config.manual_flush:
            self._is_pressed = True  # no row will move by itself
            return
        # With a linger set, the batches that are waited for wait themselves.
        hurry = runtime.accumulator.hurry() if runtime.config.for_topic(topic).linger_ms else None
        try:
            self._is_pressed = not await self._places.progress(runtime.now() + runtime.max_block)
        finally:
            if hurry is not None:
                hurry.end()

    async def _send_row(
        self, rows: ArrowRows, row: int, topic: str, partition: int | None, *, may_wait: bool = True
    ) -> Exception | None:
        """Send one row as ``enqueue`` does, or as ``send_nowait``; returns the error if it is not sent."""
        self._unyielded += COST_OF_SINGLE_ROW
        rows.now_ms = now_ms()
        try:
            timestamp_ms, key, value, headers = rows.record(row)
            given_time = timestamp_ms if timestamp_ms >= 0 else EarlyTime(timestamp_ms)
            if self._overflow is not None:
                check_overflow(self._runtime.config, topic, self._overflow)  # a row may name its topic itself
            accepted = with_overflow(
                self._intake.accept(topic, value, key, partition, given_time, headers), self._overflow
            )
            if not isinstance(accepted, Delivery):
                accepted = await admitted(accepted) if may_wait else admitted_at_once(accepted)
        except Exception as error:
            self._places.add_failed(1, error)
            return error
        self._places.add_span(*place_of(accepted), 1)
        self._bytes += RecordBatchBuilder(1).try_append(timestamp_ms, key, value, headers)
        return None

    def _fail(self, rows: ArrowRows, stop: int, error: KafkaError | None = None) -> None:
        """Planned rows up to the place ``stop`` will not be sent; without an error because the producer was closed."""
        self._unyielded += COST_OF_SINGLE_ROW
        self._places.add_failed(stop - rows.position, error or self._end_error)
        rows.position = stop

    def _is_over(self) -> bool:
        """True when the producer takes no more rows."""
        try:
            self._intake.accepting_runtime(self._opening)
        except KafkaError as error:
            self._is_ended, self._end_error = True, error
        return self._is_ended

    async def _yield_when_due(self) -> None:
        if self._unyielded >= SLICE_BYTES:
            self._unyielded = 0
            await asyncio.sleep(0)

    # places for rows

    async def _have_unknown(self, topics: Sequence[str | None]) -> bool:
        """True when one of the topics has no partitions to plan for, and its rows are still taken."""
        for topic in topics:
            if not topic or topic in self._routes or topic in self._topic_errors:
                continue
            if await self._goes_unknown(topic):
                return True
        return False

    async def _goes_unknown(self, topic: str) -> bool:
        """True when a topic has no partitions, and its rows are still taken. Its partitions are waited for once."""
        admission = self._runtime.admission
        if admission.takes_unknown(topic):
            return True
        if await self._route(topic) is not NO_ROUTE or not admission.takes_unknown(topic):
            return False
        del self._topic_errors[topic]  # no broker has answered
        return True

    async def _is_nowhere(self, topic: str) -> bool:
        """True when a topic has no partitions, and its rows are not taken: ``_topic_errors`` says why."""
        return topic not in self._routes and not await self._goes_unknown(topic) and topic in self._topic_errors

    def _is_spool_full(self, topic: str, error: Exception) -> bool:
        """True when a row waited for room in the spool in vain: the next one would wait as long."""
        is_late = isinstance(error, BufferExhaustedError | MetadataTimeoutError)
        return is_late and self._runtime.admission.takes_unknown(topic)

    async def _route(self, topic: str | None) -> Route:
        """The lanes of a topic, after waiting for its metadata; empty if that does not come."""
        self._unyielded += COST_OF_ROUTE
        if not topic or topic in self._topic_errors:
            return NO_ROUTE
        try:
            if topic not in self._routes:
                topic_name(topic)
            runtime = self._intake.accepting_runtime(self._opening)
            state = runtime.admission.refresh(topic, runtime.now())
            if not state.partition_count:
                await self._find(topic)
                state = runtime.admission.refresh(topic, runtime.now())
        except KafkaError as error:
            self._topic_errors[topic] = kept_error(error)
            return NO_ROUTE
        route = self._routes.get(topic)
        if route is None or route.partition_count != state.partition_count:
            route = self._routes[topic] = Route(self._next_lane, state.partition_count)
            self._first_lanes.append(self._next_lane)
            self._lane_routes.append((topic, route))
            self._next_lane += 1 + state.partition_count
        if self._is_uniform or state.cluster is None:
            return route
        # Rows with and without keys keep their order only if these are planned for a partition too.
        sticky_bytes = self._sticky_bytes.pop(topic, 0)
        appender = runtime.accumulator.appender
        return route._replace(sticky_partition=appender.sticky_partition(topic, sticky_bytes, state.cluster))

    async def _find(self, topic: str) -> None:
        """Wait for the topic's metadata. Raises the error if it does not come, or if no row may be sent any more."""
        try:
            await self._runtime.partitions_for(topic)
        except KafkaError as error:
            self._intake.accepting_runtime(self._opening)
            self._runtime.admission.on_refusal(error)
            raise
        self._intake.accepting_runtime(self._opening)

    def _refuse(self, rows: ArrowRows, topics: Sequence[str | None], routes: Sequence[Route]) -> None:
        """Give errors to the rows of a plan that cannot be sent; each error is made when it is read."""
        refusals = _Refusals(self._names, topics, routes, *rows.refusals(), self._topic_errors)
        self._places.add_failed(rows.refused, refusals.error)


def _is_partition_missing(rows: ArrowRows, routes: Sequence[Route]) -> bool:
    """True when a row was refused for a partition that its topic may have got meanwhile."""
    topics, partitions = rows.refusals()
    return any(
        topic != NULL_TOPIC and 0 < routes[topic].partition_count <= partition
        for topic, partition in zip(topics, partitions, strict=True)
    )


class _Refusals(NamedTuple):
    """The rows that a plan refused: the number of each one's topic, and its partition."""

    names: ColumnNames
    topics: Sequence[str | None]
    routes: Sequence[Route]
    numbers: Sequence[int]
    partitions: Sequence[int]
    topic_errors: Mapping[str, KafkaError]

    def error(self, index: int) -> KafkaError:
        """The reason why the ``index``-th of them could not be sent."""
        number, partition = self.numbers[index], self.partitions[index]
        topic = None if number == NULL_TOPIC else self.topics[number]
        if not topic:
            return _no_topic_error(self.names)
        count = self.routes[number].partition_count
        if topic in self.topic_errors and not count:
            return self.topic_errors[topic].fresh()
        kind = SerializationError if partition < 0 else UnknownTopicOrPartitionError
        return kind(
            f"column {self.names.partition!r} is {partition}: topic {topic!r} has partitions 0 to {count - 1}; "
            "null has one chosen",
            topic=topic,
            partition=partition,
        )


def _check_names(names: ColumnNames) -> None:
    for part, name in names._asdict().items():
        if not isinstance(name, str) and (name is not None or part == "value"):
            wanted = "a str" if part == "value" else "a str or None"
            raise TypeError(f"send_arrow(): {part}_column is a {type(name).__name__}, not {wanted}")


def _no_topic_error(names: ColumnNames) -> KafkaError:
    return InvalidTopicError(f"column {names.topic!r} is null or empty: expected the name of a topic")
