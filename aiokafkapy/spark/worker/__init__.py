"""One event loop in a Python worker of Spark, its producers and readers, and the bridges from its threads.

Spark's counterparts are ``InternalKafkaProducerPool`` and ``KafkaDataConsumer``'s pool.
"""
