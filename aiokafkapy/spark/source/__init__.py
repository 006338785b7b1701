"""Options come in, Arrow batches of records go out: planned on the driver, read on the executors.

Spark's counterpart is ``KafkaSource`` with ``KafkaOffsetReader``.
"""
