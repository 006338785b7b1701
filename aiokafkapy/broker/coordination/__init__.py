"""Groups (classic, consumer and share groups), their offsets, transactions, sessions of fetches, and waiting requests.

Kafka's counterparts are ``GroupCoordinator``, ``TransactionCoordinator``, ``SharePartitionManager``, ``FetchManager``
and ``DelayedOperationPurgatory``.
"""
