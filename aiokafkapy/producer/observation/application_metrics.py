"""An application's own metrics, pushed to brokers with the producer's (KIP-1076).

Owns their names, and the calls for their values. It knows neither brokers nor subscriptions: ``TelemetrySender``
pushes those that are subscribed to. Kafka's counterpart is ``KafkaProducer.registerMetricForSubscription``.

Rules: a value is asked for at each push, on the event loop; one that cannot be obtained is left out of that push, told
in the log, and harms no other. The names of the producer's own metrics are taken.

Events: ``telemetry.metric_failed`` (warning; metric, error).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from itertools import chain
from math import isfinite
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias

from ...errors import ConfigurationError
from ...observability import RateLimitedLogger, describe_error, get_logger
from ...protocol.otlp import MetricPoint

__all__ = ["ApplicationMetric", "Registered", "application_points", "register_metric", "unregister_metric"]

LONGEST_NAME: Final = 255
"""Characters, as OpenTelemetry has it for an instrument."""
_TAKEN: Final = ("org.apache.kafka.producer.", "aiokafkapy.producer.")

_log: Final = RateLimitedLogger(get_logger(__name__))


class ApplicationMetric(NamedTuple):
    """One metric of the application. ``is_total``: it only grows."""

    value: Callable[[], float]
    is_total: bool


Key: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
Registered: TypeAlias = MutableMapping[Key, ApplicationMetric]
"""By name and attributes."""


def register_metric(
    registered: Registered,
    name: str,
    value: Callable[[], float],
    *,
    is_total: bool,
    attributes: Mapping[str, str] | None,
) -> None:
    """Add a metric, or put another value in its place. Raises TypeError and ConfigurationError."""
    key = _key(name, attributes)
    if not callable(value):
        raise TypeError(f"metric {name!r}: its value is a {type(value).__name__}, not a function without arguments")
    registered[key] = ApplicationMetric(value, bool(is_total))


def unregister_metric(registered: Registered, name: str, attributes: Mapping[str, str] | None) -> bool:
    """Take a metric out; False if there was no such metric."""
    return registered.pop(_key(name, attributes), None) is not None


def application_points(registered: Registered) -> Iterable[MetricPoint]:
    """The current points of the metrics, without times."""
    for (name, attributes), metric in list(registered.items()):
        try:
            number = float(metric.value())
            if not isfinite(number):
                raise ValueError(f"it is {number}")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a CancelledError too: the task that pushes was not cancelled
            error_text = describe_error(error)
            _log.log(name, monotonic(), logging.WARNING, "telemetry.metric_failed", metric=name, error=error_text)
            continue
        yield MetricPoint(name, number, metric.is_total, dict(attributes))


def _key(name: object, attributes: Any) -> Key:
    if not isinstance(name, str):
        raise TypeError(f"the name of a metric is a {type(name).__name__}, not a str")
    if not 0 < len(name) <= LONGEST_NAME:
        raise ConfigurationError(f"the name of a metric has {len(name)} characters: write 1 to {LONGEST_NAME}")
    if name.startswith(_TAKEN):
        raise ConfigurationError(f"metric {name!r}: this prefix is reserved for the producer's own metrics")
    pairs = sorted((attributes or {}).items())
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise TypeError(f"metric {name!r}: attributes are names and values that are each a str")
    try:
        "".join((name, *chain.from_iterable(pairs))).encode()
    except UnicodeEncodeError as error:  # a push with it could not be written
        raise ConfigurationError(f"metric {name!r}: its name or attributes are not valid Unicode: {error}") from None
    return name, tuple(pairs)
