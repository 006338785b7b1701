"""Hooks around every record (KIP-42): to change it before it is sent, and to see its outcome.

Kafka's counterparts are ``ProducerInterceptor`` and ``ProducerInterceptors``. An interceptor is any object with some of
the methods of the protocols below; methods are ordinary functions, called on the event loop, and must be quick. Java
has no ``track``: an interceptor there cannot tell which record an outcome belongs to.

Rules: an interceptor's exception never reaches the caller and never stops the next one; it is logged, rate-limited.
Only KeyboardInterrupt and SystemExit pass. The record that ``on_send`` gets is a value: a changed one is returned
(``dataclasses.replace``), the caller's own objects, its headers list among them, are not touched.
``on_acknowledgement`` is called once per record that ``on_send`` saw, also for records that were never accepted; so is
the function that ``track`` returned for the record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from inspect import iscoroutine
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from ...common import Headers
from ..deliveries.delivery import Delivery
from ..records import ProducerRecord, RecordMetadata

__all__ = ["OutcomeCallback", "ProducerInterceptor", "ProducerInterceptors", "RecordTracker"]

OutcomeCallback: TypeAlias = Callable[[RecordMetadata | None, BaseException | None], object]
"""Told once how a record ended: with its metadata when delivered, with its error when not."""


@runtime_checkable
class ProducerInterceptor(Protocol):
    """The methods of an interceptor; either may be missing."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send: the same, or a changed copy. Called before serialization, on the event loop, in
        the caller's task. An exception is logged, and the record goes on as it was.
        """

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None, headers: Headers | None
    ) -> None:
        """See the outcome: ``metadata`` when delivered, ``error`` when not; ``headers`` as they were sent. Called on
        the event loop, once for each record; an exception is logged and goes nowhere else.
        """


class RecordTracker(Protocol):
    """An interceptor that follows single records, as a span of tracing does."""

    def track(self, record: ProducerRecord) -> tuple[ProducerRecord, OutcomeCallback | None]:
        """As ``on_send``, and beside the record a function to be called with its outcome, or None if the outcome does
        not matter.
        """


class ProducerInterceptors:
    """A chain of interceptors, called in order; it contains their exceptions."""

    __slots__ = ("_interceptors", "_on_error", "_tracks", "_watches_outcomes")

    def __init__(self, interceptors: Sequence[object], on_error: Callable[[str, BaseException], None]) -> None:
        self._interceptors = tuple(interceptors)
        self._on_error = on_error
        # When no interceptor wants outcomes, no callback is put on the record's delivery.
        self._watches_outcomes = any(hasattr(each, "on_acknowledgement") for each in self._interceptors)
        self._tracks = any(hasattr(each, "track") for each in self._interceptors)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def begin(self, record: ProducerRecord) -> tuple[ProducerRecord, Sequence[OutcomeCallback]]:
        """The record after the chain, and the callbacks for its outcome besides ``on_acknowledgement``. An
        interceptor that fails is skipped: the next gets the record it got.
        """
        if not self._tracks:
            return self.on_send(record), ()
        told: list[OutcomeCallback] = []
        for each in self._interceptors:
            record = self._shown(each, record)
            found = self._call(each, "track", record)
            if found is _NOTHING:
                continue
            if isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], ProducerRecord):
                record, outcome = found
                if outcome is not None:
                    told.append(partial(self._tell, each, outcome))
            else:
                problem = TypeError(f"track returned {type(found).__name__}, not a ProducerRecord and a function")
                self._on_error(f"{type(each).__name__}.track", problem)
        return record, told

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record as the chain leaves it, without tracking."""
        for each in self._interceptors:
            record = self._shown(each, record)
        return record

    def on_acknowledgement(
        self,
        metadata: RecordMetadata | None,
        error: BaseException | None,
        headers: Headers | None,
        told: Sequence[OutcomeCallback] = (),
    ) -> None:
        """Tell every interceptor how one record ended."""
        for each in self._interceptors:
            self._call(each, "on_acknowledgement", metadata, error, headers)
        for outcome in told:
            outcome(metadata, error)

    def watch(
        self,
        accepted: Delivery | asyncio.Future[Delivery],
        headers: Headers | None,
        told: Sequence[OutcomeCallback] = (),
    ) -> None:
        """Have all told when the record that was accepted, or waits to be, has its outcome."""
        if not self._watches_outcomes and not told:
            return
        if isinstance(accepted, Delivery):
            accepted.add_done_callback(partial(self._on_delivered, headers, told))
        else:
            accepted.add_done_callback(partial(self._on_admitted, headers, told))

    def close(self) -> None:
        """Call ``close`` of each interceptor that has it."""
        for each in self._interceptors:
            self._call(each, "close")

    # asyncio callbacks

    def _on_admitted(
        self, headers: Headers | None, told: Sequence[OutcomeCallback], record: asyncio.Future[Delivery]
    ) -> None:
        if record.cancelled():
            self.on_acknowledgement(None, asyncio.CancelledError(), headers, told)
        elif (error := record.exception()) is not None:
            self.on_acknowledgement(None, error, headers, told)
        else:
            record.result().add_done_callback(partial(self._on_delivered, headers, told))

    def _on_delivered(self, headers: Headers | None, told: Sequence[OutcomeCallback], delivery: Delivery) -> None:
        error = delivery.exception()
        self.on_acknowledgement(delivery.result() if error is None else None, error, headers, told)

    # internals

    def _shown(self, interceptor: object, record: ProducerRecord) -> ProducerRecord:
        """The record as one interceptor's ``on_send`` leaves it."""
        changed = self._call(interceptor, "on_send", record)
        if isinstance(changed, ProducerRecord):
            return changed
        if changed is not _NOTHING:
            problem = TypeError(f"on_send returned {type(changed).__name__}, not a ProducerRecord")
            self._on_error(f"{type(interceptor).__name__}.on_send", problem)
        return record

    def _tell(
        self,
        interceptor: object,
        outcome: OutcomeCallback,
        metadata: RecordMetadata | None,
        error: BaseException | None,
    ) -> None:
        self._contained(interceptor, "track", outcome, metadata, error)

    def _call(self, interceptor: object, name: str, *arguments: object) -> Any:
        """A hook's return value; ``_NOTHING`` when the hook is missing, or failed, which is reported."""
        hook = getattr(interceptor, name, None)
        return _NOTHING if hook is None else self._contained(interceptor, name, hook, *arguments)

    def _contained(self, interceptor: object, name: str, hook: Callable[..., object], *arguments: object) -> Any:
        """The result of a hook; ``_NOTHING`` when it fails.

        A CancelledError is a failure too: neither the caller nor the running callback was cancelled.
        """
        try:
            found = hook(*arguments)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._on_error(f"{type(interceptor).__name__}.{name}", error)
            return _NOTHING
        if iscoroutine(found):
            found.close()
            problem = TypeError(f"{name} is a coroutine function: hooks are ordinary functions")
            self._on_error(f"{type(interceptor).__name__}.{name}", problem)
            return _NOTHING
        return found


_NOTHING: Final = object()
"""Stands for the return value of a hook that is missing, or failed."""
