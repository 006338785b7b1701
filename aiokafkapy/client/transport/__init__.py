"""Bytes on connections, and the loop's timer: the asyncio half, which decides nothing.

Kafka's counterparts are ``Selector`` and ``KafkaChannel``.
"""
