"""One event loop in a Python worker of Spark, its producers and readers, and the bridges from its threads.

Options and records of Spark's tasks come in, from their threads; outcomes of sends, and records that were read, go out.
Spark's counterparts are ``InternalKafkaProducerPool`` and ``KafkaDataConsumer``'s pool.
"""
