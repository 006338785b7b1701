"""A batch's result comes in, each caller's awaitable comes out resolved, on its own loop.

Kafka's counterparts are ``ProduceRequestResult`` and ``FutureRecordMetadata``.
"""
