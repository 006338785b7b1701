"""The common part of the tests of the producer's parts."""

from __future__ import annotations

# A started producer imports it; with a part of one, deliveries are awaited on asyncio as well.
from aiokafkapy.producer.deliveries import asyncio_waiting

__all__ = ["asyncio_waiting"]
