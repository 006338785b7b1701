"""Requests of members, producers and fetchers come in; joins, commits and transactions are decided, or wait.

Kafka's counterparts are ``GroupCoordinator``, ``TransactionCoordinator``, ``SharePartitionManager`` and
``DelayedOperationPurgatory``.
"""
