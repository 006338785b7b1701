"""Record batches come in, are checked and kept, and are read back: topics, partitions and their logs, with retention
and compaction.

Kafka's counterparts are ``LogManager``, ``UnifiedLog`` and ``ProducerStateManager``.
"""
