"""Hooks around every record (KIP-42): to change it before it is sent, and to see its outcome.

Kafka's counterparts are ``ProducerInterceptor`` and ``ProducerInterceptors``. An interceptor is any object with one or
both of the methods of the protocol below; methods are ordinary functions, called on the event loop, and must be quick.

Rules: an interceptor's exception never reaches the caller and never stops the next one; it is logged, rate-limited.
Only KeyboardInterrupt and SystemExit pass. The record that ``on_send`` gets is a value: a changed one is returned
(``dataclasses.replace``), the caller's own objects, its headers list among them, are not touched.
``on_acknowledgement`` is called once per record that ``on_send`` saw, also for those that were never accepted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from inspect import iscoroutine
from typing import Any, Final, Protocol, runtime_checkable

from ...common import Headers
from ..deliveries.delivery import Delivery
from ..records import ProducerRecord, RecordMetadata

__all__ = ["ProducerInterceptor", "ProducerInterceptors"]


@runtime_checkable
class ProducerInterceptor(Protocol):
    """The methods of an interceptor; either may be missing."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send: the same, or a changed copy. Called before serialization, in the caller's task."""

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None, headers: Headers | None
    ) -> None:
        """See the outcome: ``metadata`` when delivered, ``error`` when not; ``headers`` as they were sent."""


class ProducerInterceptors:
    """A chain of interceptors, called in order; it contains their exceptions."""

    __slots__ = ("_interceptors", "_on_error", "_watches_outcomes")

    def __init__(self, interceptors: Sequence[object], on_error: Callable[[str, BaseException], None]) -> None:
        self._interceptors = tuple(interceptors)
        self._on_error = on_error
        # When no interceptor wants outcomes, no callback is put on the record's delivery.
        self._watches_outcomes = any(hasattr(each, "on_acknowledgement") for each in self._interceptors)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record as the chain leaves it. An interceptor that fails is skipped: the next gets the record it got."""
        for each in self._interceptors:
            changed = self._call(each, "on_send", record)
            if isinstance(changed, ProducerRecord):
                record = changed
            elif changed is not _NOTHING:
                problem = TypeError(f"on_send returned {type(changed).__name__}, not a ProducerRecord")
                self._on_error(f"{type(each).__name__}.on_send", problem)
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None, headers: Headers | None
    ) -> None:
        """Tell every interceptor how one record ended."""
        for each in self._interceptors:
            self._call(each, "on_acknowledgement", metadata, error, headers)

    def watch(self, accepted: Delivery | asyncio.Future[Delivery], headers: Headers | None) -> None:
        """Have ``on_acknowledgement`` called when the record that was accepted, or waits to be, has its outcome."""
        if not self._watches_outcomes:
            return
        if isinstance(accepted, Delivery):
            accepted.add_done_callback(partial(self._on_delivered, headers))
        else:
            accepted.add_done_callback(partial(self._on_admitted, headers))

    def close(self) -> None:
        """Call ``close`` of each interceptor that has it."""
        for each in self._interceptors:
            self._call(each, "close")

    # asyncio callbacks

    def _on_admitted(self, headers: Headers | None, record: asyncio.Future[Delivery]) -> None:
        if record.cancelled():
            self.on_acknowledgement(None, asyncio.CancelledError(), headers)
        elif (error := record.exception()) is not None:
            self.on_acknowledgement(None, error, headers)
        else:
            record.result().add_done_callback(partial(self._on_delivered, headers))

    def _on_delivered(self, headers: Headers | None, delivery: Delivery) -> None:
        error = delivery.exception()
        self.on_acknowledgement(delivery.result() if error is None else None, error, headers)

    # internals

    def _call(self, interceptor: object, name: str, *arguments: Any) -> Any:
        """A hook's return value; ``_NOTHING`` when the hook is missing, or failed, which is reported.

        A CancelledError is a failure too: neither the caller was cancelled nor the callback that this runs in.
        """
        hook = getattr(interceptor, name, None)
        if hook is None:
            return _NOTHING
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
"""In the place of the return value of a hook that is missing, or failed."""
