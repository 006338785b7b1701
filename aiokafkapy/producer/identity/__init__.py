"""Batches come in, and are numbered so that a retry never writes twice.

Pure. Kafka's counterpart is ``TransactionManager``.
"""
