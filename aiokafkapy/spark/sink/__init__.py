"""Arrow batches come in, are sent as tables, and a report of the written rows goes back to the driver.

Spark's counterpart is ``KafkaWriter``.
"""
