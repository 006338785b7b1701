"""Group membership, committed offsets, transactions, and requests that wait.

Kafka's counterparts are ``GroupCoordinator``, ``TransactionCoordinator``, ``SharePartitionManager`` and
``DelayedOperationPurgatory``.
"""
