"""Record batches come in, are checked and kept, and are read back: topics, partitions, their logs, and what is deleted
or compacted of them.

Kafka's counterparts are ``LogManager``, ``UnifiedLog`` and ``ProducerStateManager``.
"""
