"""Arrow batches come in, are sent as tables, and what was written goes back to the driver.

Spark's counterpart is ``KafkaWriter``.
"""
