"""Bytes on connections, and the loop's timer: what asyncio asks for, and nothing that decides.

Kafka's counterparts are ``Selector`` and ``KafkaChannel``.
"""
