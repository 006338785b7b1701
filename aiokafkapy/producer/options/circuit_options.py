"""``CircuitBreaker``: the option by which deliveries that keep failing make calls fail at once.

Owns the names of these options and their checks; ``ProducerConfig.circuit_breaker`` has them, and ``circuits`` keeps to
them. Knows no producer. Java's producer has no counterpart: its calls fill the buffer, and each record waits out
``delivery.timeout.ms``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from ...client.options.config_fields import not_a_bool
from ...common import MAX_INT
from .strict_options import StrictOptions, json_of, options_of

__all__ = ["CircuitBreaker", "circuit_breaker_of"]


class CircuitBreaker(StrictOptions):
    """Opens a circuit when ``failures`` deliveries in a row have failed: then calls raise CircuitOpenError at once.

    After ``open_ms`` milliseconds ``probes`` records are let through, and again after each further ``open_ms`` until
    one has an outcome. A delivered record closes the circuit. ``scope``: each "topic" has its own, or the
    "producer" has one for all. Immutable; raises ConfigurationError for values that make no sense.
    """

    failures: Annotated[int, BeforeValidator(not_a_bool), Field(ge=1, le=MAX_INT)] = 5
    open_ms: Annotated[int, BeforeValidator(not_a_bool), Field(ge=1, le=MAX_INT)] = 30_000
    probes: Annotated[int, BeforeValidator(not_a_bool), Field(ge=1, le=MAX_INT)] = 1
    scope: Literal["topic", "producer"] = "topic"


def circuit_breaker_of(value: object) -> CircuitBreaker | None:
    """The option ``circuit_breaker``: None, a CircuitBreaker, a dict with the same names, or such a dict as JSON.

    Raises ValueError for anything else, and for values that CircuitBreaker refuses.
    """
    if isinstance(value, str):
        if value.strip().lower() in ("", "none"):
            return None
        value = json_of(value, '{"failures": 5, "open_ms": 30000}')
    return None if value is None else options_of(value, CircuitBreaker)
