"""What tests look at within a producer: the one place that knows where its parts are."""

from __future__ import annotations

from typing import Any

from aiokafkapy.producer.producer import KafkaProducer

__all__ = ["runtime_of"]


def runtime_of(producer: KafkaProducer[Any, Any]) -> Any:
    """The ``ProducerRuntime``, parts of which tests replace; None before a start."""
    return producer._life.runtime
