"""Bytes ↔ messages: the only place that knows Kafka's wire format outside record batches.

A stream's bytes come in and messages go out, and the other way round. ``framing`` cuts a byte stream into frames,
``reader`` and ``codec`` turn frames into kio's message classes and back, ``messages`` builds those classes
independently of their version. The messages of every producer are written and read by hand, without kio:
``api_versions``, ``metadata``, ``init_producer_id``, ``produce_request`` and ``produce_response``. No asyncio, no
clock, no logging. Kafka's counterparts are ``org.apache.kafka.common.protocol`` and ``common.requests``.
"""
