"""The producer for programs without an event loop: scripts, Celery's tasks, threads.

Calls come in that block; they go out to a ``KafkaProducer`` on a loop that runs in a thread of its own, and return with
its outcome. Kafka's counterpart is ``KafkaProducer``, whose I/O thread is the loop's here.
"""
