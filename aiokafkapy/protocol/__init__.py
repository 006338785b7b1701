"""Bytes ↔ messages: the only place that knows Kafka's wire format outside record batches.

``framing`` cuts a byte stream into frames, ``reader`` and ``codec`` turn frames into kio's message classes and back,
``messages`` builds those classes independently of their version, ``produce`` and ``metadata`` encode the two requests
for which kio is too slow. No asyncio, no clock, no logging.
"""

from ._kio_types import import_types

import_types()
