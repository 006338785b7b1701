"""The request faults of a ``FaultProxy``: functions that decide, armed faults, delays.

Knows API keys and node ids, nothing of connections. Every entry is for one API or for all (None), and for one node or
for all (None).

Rules: a function decides first; if it returns None the oldest fault that matches is used, once per request; delays
apply to all responses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ..fault_times import checked_times
from .requests import Answer, Hold, Request, checked_delay

__all__ = ["Fault", "OnRequest", "Rules"]

OnRequest: TypeAlias = Callable[[Request], Answer | None]
_Key: TypeAlias = tuple[int | None, int | None]


@dataclass(slots=True, eq=False)
class Fault:
    """An ``Answer`` armed for future requests."""

    api_key: int | None
    node_id: int | None
    decide: OnRequest
    remaining: int | None = 1  # None: until cleared
    hold: Hold | None = None

    def __post_init__(self) -> None:
        checked_times(self.remaining)

    def fits(self, request: Request) -> bool:
        """True if the fault applies to the request."""
        if self.hold is not None and self.hold.is_released:
            return False
        return self.api_key in (None, request.api_key) and self.node_id in (None, request.node_id)


class Rules:
    """All current rules."""

    def __init__(self) -> None:
        self._functions: dict[_Key, OnRequest] = {}
        self._faults: list[Fault] = []
        self._delays: dict[_Key, float] = {}
        self._holds: list[tuple[int | None, Hold]] = []  # also of used-up faults, whose responses may still be held

    def set_function(self, api_key: int | None, node_id: int | None, function: OnRequest | None) -> None:
        """Let a function decide; None removes it."""
        if function is None:
            self._functions.pop((api_key, node_id), None)
        else:
            self._functions[api_key, node_id] = function

    def set_delay(self, api_key: int | None, node_id: int | None, seconds: float) -> None:
        """Delay responses by ``seconds``."""
        self._delays[api_key, node_id] = checked_delay("seconds", seconds)

    def arm(self, fault: Fault) -> None:
        """Arm a fault for the next requests that match."""
        self._faults = [each for each in self._faults if each.hold is None or not each.hold.is_released]
        self._holds = [(of, hold) for of, hold in self._holds if not hold.is_released]
        self._faults.append(fault)
        if fault.hold is not None:
            self._holds.append((fault.api_key, fault.hold))

    def clear(self, api_key: int | None) -> None:
        """Remove the rules of an API, or (None) all; held responses are released."""

        def stays(of: int | None) -> bool:
            return api_key is not None and of != api_key

        self._functions = {key: each for key, each in self._functions.items() if stays(key[0])}
        self._delays = {key: each for key, each in self._delays.items() if stays(key[0])}
        self._faults = [fault for fault in self._faults if stays(fault.api_key)]
        released = [hold for of, hold in self._holds if not stays(of)]
        self._holds = [(of, hold) for of, hold in self._holds if stays(of) and not hold.is_released]
        for hold in released:
            hold.release()

    def decide(self, request: Request) -> Answer | None:
        """The ``Answer`` to a request, None to pass it on; counts down the fault used."""
        for key in _keys(request):
            function = self._functions.get(key)
            answer = None if function is None else function(request)
            if answer is not None:
                return answer
        for fault in self._faults:
            if fault.fits(request):
                if fault.remaining is not None:
                    fault.remaining -= 1
                    if not fault.remaining:
                        self._faults.remove(fault)
                return fault.decide(request)
        return None

    def delay(self, request: Request) -> float:
        """Seconds by which the response is delayed; the most specific rule counts."""
        for key in _keys(request) if self._delays else ():
            if key in self._delays:
                return self._delays[key]
        return 0.0


def _keys(request: Request) -> Iterable[_Key]:
    """The keys that apply to a request, from the most to the least specific, without duplicates."""
    api_key, node_id = request.api_key, request.node_id
    return dict.fromkeys([(api_key, node_id), (api_key, None), (None, node_id), (None, None)])
