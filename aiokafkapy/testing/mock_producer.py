"""``MockProducer``, at the place where tests look for it. It is a part of the producer:
``aiokafkapy.producer.mock``.
"""

from __future__ import annotations

from ..producer.mock import MockFailures, MockProducer

__all__ = ["MockFailures", "MockProducer"]
