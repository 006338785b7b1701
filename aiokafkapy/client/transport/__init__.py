"""Bytes on connections, and the loop's timer: the asyncio half, which decides nothing.

Addresses and frames come in; connections, whole frames and the ends of connections go out, by callbacks. Kafka's
counterparts are ``Selector`` and ``KafkaChannel``.
"""
