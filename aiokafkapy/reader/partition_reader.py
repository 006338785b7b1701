"""``PartitionReader``: assigned partitions, read in order, without a consumer group.

Owns the client, its requests, and waiting; ``Fetcher`` plans the requests and handles the responses. Kafka's
counterpart is ``KafkaConsumer`` with ``assign`` and ``seek``.

Rules:

- Reading starts where ``seek`` says, or else ``auto_offset_reset``. Nothing is committed automatically, and committed
  offsets are never read back: ``commit_offsets`` is for other tools to see.
- The next request to a node is in flight while the caller processes the last response; no more than that is held.
- Waiting ends by time-out, by cancellation (no data is lost: the next call returns it), or by ``close``, also that of
  other tasks, which leaves no task and no socket behind.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from ..client.config import given_config
from ..client.network_client import NetworkClient
from ..client.network_client_utils import next_refusal, unless_refused
from ..client.nodes.client_request import ClientRequest, ClientResponse
from ..cluster.metadata import Metadata
from ..common import (
    MAX_LONG,
    ConsumedRecord,
    PartitionInfo,
    TopicPartition,
    group_id_of,
    integer_of,
    number_within,
    timeout_of,
    topic_partition_of,
)
from ..errors import IllegalStateError, KafkaError, KafkaTimeoutError, OffsetOutOfRangeError
from ..protocol.api import ApiKey
from ..record.arrow_columns import record_batch
from ..record.record_columns import OFFSET_MAX, RecordColumns
from .config import ReaderConfig
from .fetcher import Fetcher, FetchPlan, PartitionRecords
from .group_offsets import GroupOffsets
from .offset_lookup import OffsetLookup
from .offsets import EARLIEST, LATEST, OffsetAndTimestamp

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PartitionReader", "PartitionRecords"]

F = TypeVar("F")


class PartitionReader:
    """Reads partitions from any offset: ``async with PartitionReader("host:9092") as reader: …``.

    Options are those of ``ReaderConfig``, as keyword arguments or as ``config``. The constructor does no I/O. Use it
    from one task at a time, on one event loop.

    Each ``timeout`` is in seconds, by default ``default_api_timeout_ms``. Calls that ask brokers raise
    IllegalStateError before ``start`` and after ``close``, at once if the reader is closed while they wait; calls about
    a partition's position raise it for a partition that is not assigned. A broker that does not answer has a third of
    the time-out. A broker that refuses the credentials ends a call with AuthenticationFailedError at once, as in Java.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: ReaderConfig | None = None,
        **options: Any,
    ) -> None:
        self.config = config = given_config(ReaderConfig, bootstrap_servers, config, options)
        self.metadata = Metadata.of(config)
        self._fetcher = Fetcher(config, self.metadata)
        # while the reader runs
        self._client: NetworkClient | None = None
        self._lookup: OffsetLookup | None = None
        self._group_offsets: GroupOffsets | None = None
        self._crash: Exception | None = None
        self._refused: KafkaError | None = None  # the refusal of the credentials that the last call raised
        self._has_news = asyncio.Event()
        self._closed = asyncio.Event()

    # start and close

    async def start(self) -> None:
        """Create the client; the first request connects. Does nothing when started. Raises ConfigurationError for
        options that cannot work, and IllegalStateError after ``close``.
        """
        if self._closed.is_set():
            raise IllegalStateError("the reader is closed: make a new one")
        if self._client is not None:
            return
        loop = asyncio.get_running_loop()
        self._client = NetworkClient(self.config, self.metadata, loop=loop, wakeup=self._has_news.set)
        self._lookup = OffsetLookup(
            self._client,
            self.metadata,
            self.config.retry_backoff,
            read_committed=self.config.isolation_level == "read_committed",
            request_timeout=self.config.request_timeout_ms / 1000,
        )
        self._group_offsets = GroupOffsets(
            self._client, self.config.retry_backoff, request_timeout=self.config.request_timeout_ms / 1000
        )

    async def close(self) -> None:
        """Drop fetched data and close the connections. Idempotent, and harmless before ``start``."""
        self._closed.set()
        client, self._client = self._client, None
        if client is None:
            return
        await client.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # partitions and offsets

    async def partitions_for(self, topic: str, timeout: float | None = None) -> tuple[PartitionInfo, ...]:
        """The topic's partitions in order of their numbers.

        Raises InvalidTopicError for a name that no broker accepts, and the topic's error if it is not retriable. After
        ``timeout`` seconds (default_api_timeout_ms) raises UnknownTopicOrPartitionError if the topic still does not
        exist, else KafkaTimeoutError.
        """
        self._running()
        return await self._until_closed(self._partitions_for(topic, self._timeout(timeout)))

    async def _partitions_for(self, topic: str, timeout: float) -> tuple[PartitionInfo, ...]:
        self.metadata.add_topics({topic})
        try:
            async with asyncio.timeout(timeout):
                while not (found := self.metadata.cluster.partitions_for_topic(topic)):
                    error = self.metadata.topic_error(topic) or self.metadata.fatal_error
                    self.metadata.request_update()  # also before an error is raised: the next call hears if it is cured
                    if error is not None and not error.retriable:
                        raise error.fresh()
                    self._has_news.clear()
                    await self._has_news.wait()
        except TimeoutError:
            error = self.metadata.topic_error(topic)
            if error is not None:
                raise error.fresh() from None
            cause = self.metadata.describe_failure(topic)
            raise KafkaTimeoutError(f"nothing is known of topic {topic!r} after {timeout:g} s: {cause}") from None
        return found

    async def list_offsets(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Offsets by time: EARLIEST, LATEST, MAX_TIMESTAMP (KIP-734), or milliseconds since the epoch, which finds the
        first record not older than that, or None.

        Raises KafkaTimeoutError after ``timeout`` seconds (default_api_timeout_ms) for a topic or a partition that does
        not exist or has no leader, with the cause. Raises InvalidTopicError, TypeError or ValueError for a wrong
        argument, UnsupportedVersionError for MAX_TIMESTAMP with brokers before 3.0, and any other error that is not
        retriable at once. Java: offsetsForTimes.
        """
        self._running()
        return await self._look_up({tp: _time_of(tp, time) for tp, time in _by_partition("times", times)}, timeout)

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset still in the log of each partition. Raises as ``list_offsets``, after ``timeout`` seconds
        KafkaTimeoutError.
        """
        return await self._offsets(partitions, EARLIEST, timeout)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last readable record of each partition: with ``read_committed`` the last stable offset.
        Raises as ``list_offsets``, after ``timeout`` seconds KafkaTimeoutError.
        """
        return await self._offsets(partitions, LATEST, timeout)

    async def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> None:
        """Commit the next offset to read of each partition for a consumer group without members, so that tools can
        monitor its lag.

        Raises KafkaTimeoutError after ``timeout`` seconds (default_api_timeout_ms), with the cause. Raises
        UnknownMemberIdError for a group that has members, GroupAuthorizationFailedError, TypeError or ValueError for a
        wrong argument, and any other error that is not retriable at once. After a time-out or a cancellation the
        offsets may be committed. Java: commitSync.
        """
        self._running()
        assert self._group_offsets is not None
        group = group_id_of(group)
        wanted = {
            tp: number_within(f"the offset to commit of {tp}", offset, 0, MAX_LONG)
            for tp, offset in _by_partition("offsets", offsets)
        }
        await self._until_closed(self._group_offsets.commit(group, wanted, self._timeout(timeout)))

    # positions

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others. New ones start where ``auto_offset_reset`` says, unless ``seek`` is
        called; those assigned before go on where they are. Raises InvalidTopicError for a name that no broker takes,
        TypeError or ValueError for anything else that is not a partition.
        """
        wanted = [topic_partition_of(tp) for tp in partitions]
        self.metadata.add_topics({tp.topic for tp in wanted})
        self._fetcher.assign(wanted)
        self._has_news.set()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions."""
        return frozenset(self._fetcher.partitions)

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Continue the partition at this offset, which only ``fetch`` checks. Raises OffsetOutOfRangeError if no offset
        can be this number, TypeError for anything but an int, and IllegalStateError for a partition that is not
        assigned.
        """
        offset = integer_of(f"the offset of {topic_partition}", offset)
        if not 0 <= offset <= MAX_LONG:
            raise OffsetOutOfRangeError(f"{topic_partition}: an offset cannot be {offset}")
        self._fetcher.seek(topic_partition, offset)
        self._has_news.set()

    def seek_to_time(self, topic_partition: TopicPartition, time: int) -> None:
        """Continue the partition at EARLIEST, LATEST, or the first record not older than ``time``, in milliseconds
        since the epoch (its end, if all are older). Looked up by the next fetch call; a broker answers the requests of
        a connection in order, so it may have to wait for a fetch in flight, up to ``fetch_max_wait_ms``. Raises
        IllegalStateError for a partition that is not assigned, TypeError or ValueError for anything that is not a time.
        """
        self._fetcher.seek(topic_partition, None, _time_of(topic_partition, time))
        self._has_news.set()

    def stop_at(self, topic_partition: TopicPartition, offset: int | None) -> None:
        """Stop reading the partition before this offset; None removes the limit. Raises IllegalStateError for a
        partition that is not assigned, TypeError or ValueError for anything that is not an offset.
        """
        state = self._fetcher.state(topic_partition)
        if offset is None:
            state.stop_at = OFFSET_MAX
        else:
            state.stop_at = number_within(f"the offset of {topic_partition}", offset, 0, MAX_LONG)
        self._has_news.set()

    @property
    def is_finished(self) -> bool:
        """True when every assigned partition has a ``stop_at`` and all records before it were handed out."""
        states = self._fetcher.partitions.values()
        return bool(states) and all(state.is_finished for state in states)

    def position(self, topic_partition: TopicPartition) -> int | None:
        """The offset to be read next; None until it is looked up. Raises IllegalStateError for a partition that is not
        assigned.
        """
        return self._fetcher.state(topic_partition).position

    # reading

    async def fetch(self, max_wait: float | None = 1.0) -> list[ConsumedRecord]:
        """The next records of one of the partitions, in order; an empty list when none came within ``max_wait``
        seconds; None waits for ever.

        Raises each error that is not retriable once: a damaged batch, an offset out of range without a reset, missing
        authorization; and KafkaTimeoutError for a partition whose start was not found within default_api_timeout_ms,
        such as one without a leader. The next call continues with the other partitions. A cancelled call loses no
        record: the next one returns them.
        """
        found = await self.fetch_partition(max_wait)
        return [] if found is None else found.records

    async def fetch_partition(self, max_wait: float | None = 1.0) -> PartitionRecords | None:
        """As ``fetch``, with the partition and its end offset; None when nothing came within ``max_wait`` seconds."""
        return await self._fetch(self._fetcher.take, max_wait)

    async def fetch_arrow(self, max_wait: float | None = 1.0, *, with_headers: bool = False) -> pa.RecordBatch | None:
        """The next records of one of the partitions as a ``pyarrow.RecordBatch``, without a Python object per record;
        None if none came within ``max_wait`` seconds. Columns are those of ``record.arrow_columns.schema``; errors as
        in ``fetch``.
        """
        columns = RecordColumns(with_headers)
        found = await self._fetch(partial(self._fetcher.take_columns, columns), max_wait)
        return None if found is None else record_batch(found.columns, *found.topic_partition)

    async def _fetch(self, take: Callable[[], F | None], max_wait: float | None) -> F | None:
        client, refused = self._running(), self._refused
        loop = asyncio.get_running_loop()
        seconds = timeout_of("fetch", max_wait, "max_wait")
        max_wait = math.inf if seconds is None else seconds
        deadline = loop.time() + max_wait
        # Let other tasks run even if data is always available.
        await asyncio.sleep(0)
        self._fetcher.resume(loop.time())
        try:
            while True:
                self._has_news.clear()
                if self._crash is not None:
                    crash, self._crash = self._crash, None
                    raise crash
                self._raise_refusal(refused)
                now = loop.time()
                self._look_up_positions(now)
                found = take()
                self._send_fetches(client, now)
                if found is not None or now >= deadline or self.is_finished:
                    return found
                await self._wait(min(deadline - now, self._fetcher.next_retry(now) or max_wait))
                self._running()
        finally:
            self._fetcher.pause(loop.time())

    async def __aiter__(self) -> AsyncIterator[ConsumedRecord]:
        """All records from the positions on, endless unless every partition has a ``stop_at``; in order per partition.

        Raises as ``fetch``. Positions move by whole fetches: after leaving the loop early, ``seek`` to the offset after
        the last record that was used.
        """
        while not self.is_finished:
            for record in await self.fetch():
                yield record

    # asyncio callbacks

    def _on_answer(
        self, handle: Callable[[ClientResponse, float], None], future: asyncio.Future[ClientResponse]
    ) -> None:
        if self._client is None:
            return
        try:
            handle(future.result(), asyncio.get_running_loop().time())
        except Exception as error:  # the callback's root: a bug of ours, which the next call raises
            self._crash = error
        self._has_news.set()

    # internals

    def _running(self) -> NetworkClient:
        if self._client is None:
            is_closed = self._closed.is_set()
            raise IllegalStateError(
                "the reader is closed" if is_closed else "the reader is not started: use `async with`, or start()"
            )
        return self._client

    async def _until_closed(self, call: Coroutine[Any, Any, F]) -> F:
        """The result of a call that may wait for brokers, unless the reader is closed meanwhile, or refused."""
        return await unless_refused(call, self._refusal(self._running()))

    async def _refusal(self, client: NetworkClient) -> NoReturn:
        error = await next_refusal(self.metadata, client, known=self._refused)
        if error is None:
            raise IllegalStateError("the reader is closed")
        self._refused = error
        raise error.fresh()

    def _raise_refusal(self, known: KafkaError | None) -> None:
        """Raise the brokers' refusal of the credentials, unless it is the one that was known before the call: it may be
        cured by now, and the next attempt tells.
        """
        error = self.metadata.fatal_error
        if error is not None and error is not known:
            self._refused = error
            raise error.fresh()

    def _timeout(self, timeout: float | None) -> float:
        seconds = timeout_of("PartitionReader", timeout)
        return self.config.default_api_timeout_ms / 1000 if seconds is None else seconds

    async def _offsets(
        self, partitions: Iterable[TopicPartition], time: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        self._running()
        found = await self._look_up(dict.fromkeys(map(topic_partition_of, partitions), time), timeout)
        return {tp: 0 if place is None else place.offset for tp, place in found.items()}

    async def _look_up(
        self, wanted: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        assert self._lookup is not None
        return await self._until_closed(self._lookup.look_up(wanted, self._timeout(timeout)))

    async def _wait(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(None if timeout == math.inf else timeout):
                await self._has_news.wait()
        except TimeoutError:
            pass

    def _look_up_positions(self, now: float) -> None:
        assert self._lookup is not None
        wanted = self._fetcher.partitions_to_reset(now)
        if not wanted:
            return
        for tp in [tp for tp in wanted if self.metadata.current_leader(tp)[0] is None]:
            self._fetcher.note_not_asked(tp, now)
        for asked, future in self._lookup.ask_leaders(wanted):
            self._fetcher.note_asked(asked)
            future.add_done_callback(partial(self._on_answer, partial(self._handle_offsets, asked)))

    def _handle_offsets(self, asked: Mapping[TopicPartition, int], response: ClientResponse, now: float) -> None:
        assert self._lookup is not None
        for tp, found in self._lookup.answers(asked, response).items():
            self._fetcher.handle_offset(tp, asked[tp], found, now)

    def _send_fetches(self, client: NetworkClient, now: float) -> None:
        for plan in self._fetcher.plans(now, partial(client.ready, now=now)):
            request = ClientRequest(
                plan.node.node_id,
                ApiKey.FETCH,
                plan.build,
                timeout=self.config.fetch_max_wait_ms / 1000 + self.config.request_timeout_ms / 1000,
                max_version=plan.max_version,
            )
            client.send(request, now).add_done_callback(partial(self._on_answer, partial(self._handle_fetched, plan)))

    def _handle_fetched(self, plan: FetchPlan, response: ClientResponse, now: float) -> None:
        try:
            body = response.body_or_raise()
        except KafkaError as error:
            self._fetcher.handle_failure(plan, error, now)
        else:
            self._fetcher.handle_response(plan, body, now)


def _by_partition(name: str, given: Mapping[TopicPartition, F]) -> Iterator[tuple[TopicPartition, F]]:
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} is a {type(given).__name__}, not a mapping of partitions")
    return ((topic_partition_of(tp), value) for tp, value in given.items())


def _time_of(topic_partition: TopicPartition, time: int) -> int:
    return number_within(f"the time of {topic_partition}", time, -MAX_LONG, MAX_LONG)
