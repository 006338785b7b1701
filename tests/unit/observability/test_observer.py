from __future__ import annotations

import asyncio
import contextlib
import logging
import time

import pytest

from aiokafkapy.observability.interrupts import raise_soon
from aiokafkapy.observability.observer import (
    OBSERVER_METHODS,
    BatchDone,
    ConnectionOpened,
    Observer,
    Observers,
    RequestDone,
    Throttled,
)

THROTTLED = Throttled(1, "PRODUCE", 0.5)


class Recorder(Observer):
    def __init__(self) -> None:
        self.events: list[object] = []

    def throttled(self, event: Throttled) -> None:
        self.events.append(event)


class Failing(Observer):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def throttled(self, event: Throttled) -> None:
        raise self.error


def test_the_methods_are_those_of_the_events() -> None:
    assert OBSERVER_METHODS == (
        "connection_opened",
        "connection_failed",
        "connection_closed",
        "request_sent",
        "request_done",
        "throttled",
        "batch_done",
    )


def test_every_observer_that_has_the_method_is_called_in_order() -> None:
    first, second = Recorder(), Recorder()
    second.events = first.events
    observers = Observers([first, Observer(), second], time.monotonic)
    assert observers.throttled is not None
    observers.throttled(THROTTLED)
    assert first.events == [THROTTLED, THROTTLED]
    assert first.events[0] is first.events[1]


def test_a_method_that_nobody_overrides_is_not_called() -> None:
    observers = Observers([Recorder(), Observer()], time.monotonic)
    assert {name for name in OBSERVER_METHODS if getattr(observers, name) is not None} == {"throttled"}
    assert all(getattr(Observers([], time.monotonic), name) is None for name in OBSERVER_METHODS)


def test_any_object_with_some_of_the_methods_will_do() -> None:
    class Duck:
        seen: object = None

        def connection_opened(self, event: ConnectionOpened) -> None:
            self.seen = event

    duck = Duck()
    tell = Observers([duck], time.monotonic).connection_opened
    assert tell is not None
    tell(ConnectionOpened(1, "h:9092", 0.1))
    assert duck.seen == (1, "h:9092", 0.1)


def test_a_function_set_on_the_object_itself_is_called_too() -> None:
    seen: list[Throttled] = []
    observer = Observer()
    observer.throttled = seen.append  # type: ignore[method-assign, assignment]
    tell = Observers([observer], time.monotonic).throttled
    assert tell is None or not tell(THROTTLED)
    assert seen == [THROTTLED]


class WithoutText(BaseException):
    def __str__(self) -> str:
        raise LookupError


def test_an_error_without_a_text_ends_here_too(caplog: pytest.LogCaptureFixture) -> None:
    """The error came out in the middle of a connection's work, which then waited for its time-out."""
    observers = Observers([Failing(WithoutText())], time.monotonic)
    assert observers.throttled is not None
    observers.throttled(THROTTLED)
    assert observers.failures == 1
    assert "WithoutText: its text cannot be made" in caplog.text


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError("no")])
def test_an_observer_that_raises_is_logged_and_counted_and_the_next_one_is_called(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()
    observers = Observers([Failing(error), recorder], time.monotonic)
    assert observers.throttled is not None
    with caplog.at_level(logging.ERROR, "aiokafkapy"):
        for _ in range(100):
            observers.throttled(THROTTLED)
    assert len(recorder.events) == observers.failures == 100
    assert 1 <= len(caplog.records) < 6
    assert "observer.failed" in caplog.text
    assert f'method=Failing.throttled error="{type(error).__name__}: no"' in caplog.text


def test_only_the_end_of_the_program_passes() -> None:
    for error in (KeyboardInterrupt, SystemExit):
        tell = Observers([Failing(error())], time.monotonic).throttled
        assert tell is not None
        with pytest.raises(error):
            tell(THROTTLED)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_the_end_of_the_program_comes_out_of_the_loop(error: type[BaseException]) -> None:
    """It does not come out of the middle of the client's work, which would not be taken up again."""
    recorder, ended = Recorder(), []

    async def program() -> None:
        tell = Observers([Failing(error()), recorder], time.monotonic, raise_soon).throttled
        assert tell is not None
        tell(THROTTLED)
        ended.append("work")
        await asyncio.get_running_loop().create_future()

    loop = asyncio.new_event_loop()
    with contextlib.closing(loop), pytest.raises(error):
        loop.run_until_complete(program())
    assert ended == ["work"]
    assert recorder.events == [THROTTLED]


def test_a_coroutine_function_is_refused_and_not_left_unawaited(caplog: pytest.LogCaptureFixture) -> None:
    class Awaiting:
        async def throttled(self, event: Throttled) -> None: ...

    observers = Observers([Awaiting()], time.monotonic)
    assert observers.throttled is not None
    observers.throttled(THROTTLED)
    assert observers.failures == 1
    assert "throttled is a coroutine function" in caplog.text


def test_events_read_well() -> None:
    done = RequestDone(1, "PRODUCE", 0, 12, 7, 100, 60, 0.0, 0.002, None)
    assert (done.api, done.request_size, done.error) == ("PRODUCE", 100, None)
    batch = BatchDone("orders", 0, 10, 500, 900, 1, 0.005, 0.002, 0.0, 42, None)
    assert batch.records * batch.attempts == 10
    assert "topic='orders'" in repr(batch)
