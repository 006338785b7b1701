"""Requests of members, producers and fetchers come in as plain values, and their answers go out, at once or by a
callback: groups (classic, consumer and share groups), their offsets, transactions, sessions of fetches, and waiting
requests.

Kafka's counterparts are ``GroupCoordinator``, ``TransactionCoordinator``, ``SharePartitionManager``, ``FetchManager``
and ``DelayedOperationPurgatory``.
"""
