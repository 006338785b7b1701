"""Those that wait for others: consumer groups, and requests that wait for something to happen.

Kafka's counterparts are ``GroupCoordinator`` and ``DelayedOperationPurgatory``.
"""
