"""The producer: from ``send()`` to a record's place on a broker.

Its parts carry the names Kafka gives them: ``KafkaProducer`` takes records, ``RecordAccumulator`` gathers them into
batches, ``Sender`` turns ready batches into Produce requests, ``TransactionManager`` numbers them so that a retry never
writes twice. This package never imports the dev broker, so each of the two is a true test of the other.
"""
