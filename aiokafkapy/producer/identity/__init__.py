"""Batches come in, and go out with a producer id, an epoch and a sequence, so that a retry never writes twice.

Outcomes come in too: they say when the epoch is to be bumped, and whether a transaction can be committed. Pure. Kafka's
counterpart is ``TransactionManager``.
"""
