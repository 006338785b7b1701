"""Calls come in, records with bytes and a partition go out to the accumulator.

``RecordSender`` has the calls, ``RecordIntake`` is the fast path, and ``Admission`` is the line of the records that
must wait for metadata, for room or for an async serializer. Kafka's counterpart is ``KafkaProducer.doSend``.
"""
