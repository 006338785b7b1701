"""``BlockingProducer``: ``KafkaProducer`` for programs without an event loop.

Owns a ``LoopThread`` and the producer on it, made by the first call that needs them. kafka-python's counterpart is its
``KafkaProducer``, whose ``send`` returns a future as well.

Rules:

- It may be made at the head of a module, since that starts nothing. In the child of a fork, such as a worker of Celery
  or gunicorn, it is as new; the parent keeps the records that it had sent.
- ``send`` returns before the record is delivered. Accepted records are sent at the end of ``with``, by ``close``, and
  at the end of the program, or of a process of multiprocessing's, for up to ``AT_EXIT_SECONDS``.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeVar, Unpack, overload

from ..common import timeout_of
from ..errors import ProducerClosedError, ProducerNotStartedError
from ..producer import forks
from ..producer.intake.record_sender import K, V
from ..producer.producer import KafkaProducer
from .loop_thread import LoopEndedError, LoopThread

if TYPE_CHECKING:
    from ..common import PartitionInfo
    from ..producer.config import ProducerConfig
    from ..producer.options.keywords import ProducerOptions
    from ..producer.records import CallOverflow, HeadersLike, ProducerRecord, RecordMetadata, Timestamp
    from ..producer.serializers import Serializer
    from ..producer.statistics import ProducerHealth, ProducerStatistics
    from ..protocol.codec import Struct

__all__ = ["AT_EXIT_SECONDS", "BlockingProducer"]

AT_EXIT_SECONDS: Final = 10.0
"""Seconds for which the end of the program waits for records that are not delivered yet."""

AFTER_POOLS: Final = 0
"""The priority among multiprocessing's finalizers: behind its pools (15), whose callbacks may still send."""
CLOSED: Final = "this BlockingProducer is closed"

T = TypeVar("T")


class BlockingProducer(Generic[K, V]):
    """Takes the options of ``KafkaProducer``, which are checked here. Any number of threads may share one.

    Calls block their thread until they are done. Ctrl-C ends a waiting call as a cancellation ends that of
    ``KafkaProducer``, and then raises KeyboardInterrupt. The first call that needs a broker starts the producer, and
    may raise the errors of ``KafkaProducer.start``; after ``close`` such a call raises ProducerClosedError. On the
    event loop's own thread, as in a future's callback, every call that would wait for the loop raises RuntimeError.

    The other calls of ``KafkaProducer`` are missing, ``warm_up``, ``update_credentials`` and ``tap`` among them: a
    program that needs them runs ``KafkaProducer`` on a loop of its own, with ``send_from_thread`` for its threads.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: ProducerConfig | None = None,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        self._producer: KafkaProducer[K, V] = KafkaProducer(
            bootstrap_servers,
            config=config,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            **options,
        )
        # the loop's thread once the producer is started on it, and the start in progress
        self._thread: LoopThread | None = None
        self._starting: _Start | None = None
        self._is_closed = False
        self._closers = 0  # calls of close() that have not returned
        self._new_locks()
        _all.add(self)
        forks.watch(self, BlockingProducer._forked)

    # life

    def start(self) -> None:
        """Connect now and not with the first call. Raises the errors of ``KafkaProducer.start``; may be called
        again. Threads that call at once share one attempt and its error.
        """
        self._running_thread()

    def close(self, timeout: float | None = None) -> None:
        """As ``KafkaProducer.close``: blocks for ``timeout`` seconds at most, None for no limit; then no call works any
        more. May be called again, and from any thread but the loop's, at once too: each call blocks, and the earlier
        deadline applies. After Ctrl-C it closes at once.
        """
        timeout = timeout_of("close", timeout)
        with self._lock:
            thread = self._starting.thread if self._starting is not None else self._thread
            if thread is not None:
                thread.check_caller()  # before anything changes: another thread may still close it
                self._closers += 1
            self._is_closed = True
        if thread is None:
            return
        try:
            thread.run(self._producer.close(timeout))
        finally:
            with self._lock:
                self._closers -= 1
                is_last = not self._closers
                if is_last:
                    self._thread = None
            if is_last:
                thread.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # sending

    def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
        delivery_timeout_ms: int | None = None,
        overflow: CallOverflow | None = None,
    ) -> concurrent.futures.Future[RecordMetadata]:
        """Send one record; ``future.result(timeout)`` waits for its outcome.

        The arguments are those of ``KafkaProducer.send``; the future gets the record's error, also for a wrong
        argument. Blocks while 1,000 records are not accepted yet; Ctrl-C then withdraws the record. In a future's
        callback it never blocks, and raises BufferExhaustedError instead. The first call connects: while no broker
        answers it blocks for ``max_block_ms`` at most, and raises the errors of ``start``.
        """
        self._running_thread()
        return self._producer.send_from_thread(
            topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers,
            delivery_timeout_ms=delivery_timeout_ms, overflow=overflow,
        )  # fmt: skip

    @overload
    def send_many(
        self,
        topic: str,
        values_or_records: Iterable[V | ProducerRecord | None],
        *,
        return_exceptions: Literal[False] = False,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata]: ...

    @overload
    def send_many(
        self,
        topic: str,
        values_or_records: Iterable[V | ProducerRecord | None],
        *,
        return_exceptions: bool,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata | BaseException]: ...

    def send_many(
        self,
        topic: str,
        values_or_records: Iterable[V | ProducerRecord | None],
        *,
        return_exceptions: bool = False,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata | BaseException]:
        """As ``KafkaProducer.send_many``; blocks until every record has its outcome. The iterable is read on the
        thread of the loop. After Ctrl-C accepted records are still sent.
        """
        thread = self._running_thread()
        return _run(
            thread,
            self._producer.send_many(topic, values_or_records, return_exceptions=return_exceptions, overflow=overflow),
        )

    def flush(self, timeout: float | None = None) -> None:
        """As ``KafkaProducer.flush``: blocks for ``timeout`` seconds at most, None for no limit, then raises
        FlushTimeoutError. After Ctrl-C the records are still sent.
        """
        _run(self._running_thread(), self._producer.flush(timeout))

    def purge(self, topic: str | None = None, partition: int | None = None, *, in_flight: bool = False) -> int:
        """As ``KafkaProducer.purge``. It does not start the producer: raises ProducerNotStartedError before any call
        has.
        """
        return self._looked_at(lambda: self._producer.purge(topic, partition, in_flight=in_flight))

    def resume(self, topic: str, partition: int) -> None:
        """As ``KafkaProducer.resume``. It does not start the producer: raises ProducerNotStartedError before any call
        has.
        """
        self._looked_at(lambda: self._producer.resume(topic, partition))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """As ``KafkaProducer.transaction``: ``with producer.transaction():``. Its begin and its end block, the latter
        until the transaction is committed or aborted. Ctrl-C in the block aborts it; a commit that has begun goes on.
        """
        thread = self._running_thread()
        scope = self._looked_at(self._producer.transaction)
        _run(thread, scope.__aenter__())
        try:
            yield
        except BaseException as error:
            if not _run(thread, scope.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            _run(thread, scope.__aexit__(None, None, None))

    # queries

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """As ``KafkaProducer.partitions_for``: blocks for ``max_block_ms`` at most."""
        return _run(self._running_thread(), self._producer.partitions_for(topic))

    def ping(self, timeout: float | None = None) -> float:
        """As ``KafkaProducer.ping``: blocks for ``timeout`` seconds at most (default ``request_timeout_ms``)."""
        return _run(self._running_thread(), self._producer.ping(timeout))

    def request(
        self,
        api_key: int,
        body: Mapping[str, object] | None = None,
        *,
        node_id: int | None = None,
        version: int | None = None,
        timeout: float | None = None,
    ) -> Struct:
        """As ``KafkaProducer.request``: blocks for ``timeout`` seconds at most (default ``request_timeout_ms``). After
        Ctrl-C the broker may still carry out the request.
        """
        thread = self._running_thread()
        return _run(thread, self._producer.request(api_key, body, node_id=node_id, version=version, timeout=timeout))

    @property
    def health(self) -> ProducerHealth:
        """As ``KafkaProducer.health``."""
        return self._looked_at(lambda: self._producer.health)

    def statistics(self) -> ProducerStatistics:
        """As ``KafkaProducer.statistics``."""
        return self._looked_at(self._producer.statistics)

    def metrics(self) -> dict[str, float]:
        """As ``KafkaProducer.metrics``."""
        return self._looked_at(self._producer.metrics)

    @property
    def config(self) -> ProducerConfig:
        """The options in force."""
        return self._producer.config

    def __repr__(self) -> str:
        return f"<BlockingProducer {self.config.client_id!r} {self._producer.state.value}>"

    def __del__(self, _warn: Any = warnings.warn) -> None:
        thread: LoopThread | None = getattr(self, "_thread", None)  # None, too, when __init__ failed early
        if thread is not None:
            _warn(f"unclosed {self!r}: close() it, or use with", ResourceWarning, source=self)
            thread.submit(self._producer.close(0.0)).add_done_callback(lambda: thread.stop(wait=False))

    # internals

    def _running_thread(self) -> LoopThread:
        """The thread on which the producer is started."""
        thread = self._thread
        if thread is not None and not self._is_closed:
            return thread
        while True:
            with self._lock:
                if self._is_closed:
                    raise ProducerClosedError(CLOSED)
                if self._thread is not None:
                    return self._thread
                start = self._starting
                is_first = start is None
                if start is None:
                    _close_at_the_end_of_a_child()
                    start = self._starting = _Start()
            if is_first:
                return self._carry_out(start)
            start.wait()

    def _carry_out(self, start: _Start) -> LoopThread:
        thread = start.thread
        try:
            thread.run(self._producer.start())
            with self._lock:
                if self._is_closed:
                    raise ProducerClosedError(CLOSED)
                self._thread, self._starting = thread, None
        except BaseException as error:
            with self._lock:
                self._starting = None
                is_last = not self._closers
            start.end(error)
            if is_last:
                thread.stop()
            raise
        start.end(None)
        return thread

    def _looked_at(self, look: Callable[[], T]) -> T:
        """Call it on the loop, where nothing changes meanwhile, or here when there is no loop."""

        async def called() -> T:
            return look()

        thread = self._thread
        if thread is not None:
            with suppress(LoopEndedError):  # closed in this very moment
                return thread.run(called())
        return look()

    def _forked(self) -> object:
        """Begin anew in the child; returns the parent's objects, which must be neither touched nor freed."""
        inherited = (self._producer, self._thread, self._starting, self._lock)
        self._producer = KafkaProducer(config=self._producer.config)
        self._thread = self._starting = None
        self._closers = 0
        self._new_locks()
        return inherited

    def _new_locks(self) -> None:
        # Held for a moment only. Reentrant: the handler of a signal may close it in the middle of another call.
        self._lock = threading.RLock()


class _Start:
    """An attempt to start, shared by all threads that call meanwhile: with an attempt for each, one after the other,
    the last of N would wait N times ``max_block_ms`` for brokers that are away.
    """

    __slots__ = ("_by", "_outcome", "thread")

    def __init__(self) -> None:
        self.thread = LoopThread("aiokafkapy-blocking-producer")
        self._by = threading.get_ident()
        self._outcome: concurrent.futures.Future[None] = concurrent.futures.Future()

    def wait(self) -> None:
        """Wait for its end; raises its error, unless that only interrupted the starting thread."""
        self.thread.check_caller()
        if self._by == threading.get_ident():
            raise ProducerNotStartedError("called in a signal's handler, while the call that it interrupts connects")
        self._outcome.result()

    def end(self, error: BaseException | None) -> None:
        """Let the waiting threads go on."""
        if isinstance(error, Exception):
            self._outcome.set_exception(error)
        else:
            self._outcome.set_result(None)


def _run(thread: LoopThread, coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a call of the producer."""
    try:
        return thread.run(coroutine)
    except LoopEndedError:
        message = "this BlockingProducer was closed during the call"
        raise ProducerClosedError(message, outcome_unknown=True) from None


_all: Final[weakref.WeakSet[BlockingProducer[Any, Any]]] = weakref.WeakSet()
_closes_at_the_end_of: int | None = None
"""The process id of a multiprocessing child that has a finalizer to close the producers."""


def _close_all() -> None:
    with ExitStack() as closing:  # all of them, also when one fails
        for producer in list(_all):
            closing.callback(producer.close, AT_EXIT_SECONDS)


def _close_at_the_end_of_a_child() -> None:
    """Processes of multiprocessing's end by ``os._exit``, without atexit, but with its own finalizers."""
    global _closes_at_the_end_of
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _closes_at_the_end_of == os.getpid():
        return
    _closes_at_the_end_of = os.getpid()
    from multiprocessing.util import Finalize

    Finalize(None, _close_all, exitpriority=AFTER_POOLS)


atexit.register(_close_all)
