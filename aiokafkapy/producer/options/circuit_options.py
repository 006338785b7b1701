"""``CircuitBreaker``: when deliveries that keep failing make calls fail at once.

Owns the names of these options and their checks; ``ProducerConfig.circuit_breaker`` has them, and ``circuits`` keeps to
them. Knows no producer. Java's producer has no counterpart: its calls fill the buffer, and each record waits out
``delivery.timeout.ms``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...client.options.config_fields import MAX_INT, explained, not_a_bool
from ...errors import ConfigurationError

__all__ = ["CircuitBreaker", "circuit_breaker_of"]


class CircuitBreaker(BaseModel):
    """Opens a circuit when ``failures`` deliveries in a row have failed: then calls raise CircuitOpenError at once.

    After ``open_ms`` milliseconds ``probes`` records are let through, and again after each further ``open_ms`` until
    one has an outcome. A delivered record closes the circuit. ``scope``: each "topic" has its own, or the
    "producer" has one for all. Immutable; raises ConfigurationError for values that make no sense.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    failures: Annotated[int, BeforeValidator(not_a_bool), Field(ge=1, le=MAX_INT)] = 5
    open_ms: Annotated[int, BeforeValidator(not_a_bool), Field(ge=1, le=MAX_INT)] = 30_000
    probes: Annotated[int, BeforeValidator(not_a_bool), Field(ge=1, le=MAX_INT)] = 1
    scope: Literal["topic", "producer"] = "topic"

    if not TYPE_CHECKING:  # checkers know the constructor from the fields

        def __init__(self, **options: object) -> None:
            for name in options:
                if name not in CircuitBreaker.model_fields:
                    known = ", ".join(CircuitBreaker.model_fields)
                    raise ConfigurationError(f"{name!r:.100} is not an option of CircuitBreaker: write one of {known}")
            try:
                self.__pydantic_validator__.validate_python(options, self_instance=self, strict=True)
            except ValidationError as error:
                raise ConfigurationError("; ".join(explained(each, options) for each in error.errors())) from None


def circuit_breaker_of(value: object) -> CircuitBreaker | None:
    """The option ``circuit_breaker``: None, a CircuitBreaker, a dict with the same names, or such a dict as JSON.

    Raises ValueError for anything else, and for values that CircuitBreaker refuses.
    """
    if isinstance(value, str):
        if value.strip().lower() in ("", "none"):
            return None
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise ValueError(f'write JSON, as {{"failures": 5, "open_ms": 30000}}: {error}') from None
    if value is None or isinstance(value, CircuitBreaker):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"CircuitBreaker(…) is needed, not {type(value).__name__}")
    for name in value:
        if not isinstance(name, str):
            raise ValueError(f"the name of an option is a {type(name).__name__}, not a str")
    try:
        return CircuitBreaker(**value)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
