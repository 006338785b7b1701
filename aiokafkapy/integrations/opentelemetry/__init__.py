"""Producers in OpenTelemetry: spans for records that are sent and processed (``KafkaTracing``), and metrics (``watch``,
and ``KafkaDurations`` for a histogram).

A producer, its records and those that a consumer reads come in; spans and metrics go out, to the application's SDK.

It needs the API alone, the extra ``opentelemetry``; the application chooses an SDK, and without one no span or metric
is recorded. Names and attributes are those of the semantic conventions for messaging, in the form in which
``messaging.operation.type`` is ``send``.
"""

from __future__ import annotations

try:
    import opentelemetry.trace  # noqa: F401
except ImportError as error:
    raise ImportError("opentelemetry is missing: pip install 'aiokafkapy[opentelemetry]'") from error

from .durations import KafkaDurations
from .metrics import watch
from .tracing import KafkaTracing

__all__ = ["KafkaDurations", "KafkaTracing", "watch"]
