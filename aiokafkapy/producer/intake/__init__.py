"""Calls come in, records with bytes and a partition go out to the accumulator.

``RecordIntake`` is the fast path; ``Admission`` is the line of those that must wait for metadata or for an async
serializer. Kafka's counterpart is ``KafkaProducer.doSend``.
"""
