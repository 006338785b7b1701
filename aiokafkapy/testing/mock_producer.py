"""``MockProducer``, at the place where tests look for it. It is a part of the producer:
``aiokafkapy.producer.mock.producer``.
"""

from __future__ import annotations

from ..producer.mock.producer import MockFailures, MockProducer

__all__ = ["MockFailures", "MockProducer"]
