"""Records come in, batches go out: memory, batches, queues, and which of them are ready.

Pure: no asyncio, no clock but the one that ``PhaseTimer`` is given. Kafka's counterparts are ``RecordAccumulator``,
``ProducerBatch`` and ``BufferPool``.
"""
