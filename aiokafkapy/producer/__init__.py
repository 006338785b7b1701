"""The producer: from ``send()`` to a record's place on a broker. Records come in, their outcomes go out.

Its parts carry the names Kafka gives them: ``KafkaProducer`` takes records, ``RecordAccumulator`` gathers them into
batches, ``Sender`` turns ready batches into Produce requests, ``TransactionManager`` numbers them so that a retry never
writes twice. This package never imports the dev broker, so each of the two is a true test of the other.

A record's way through the rooms: ``intake`` checks and serializes it, ``accumulator`` batches it, ``identity`` numbers
its batch, ``sender`` sends the batch, ``deliveries`` gives the record its outcome. ``options`` has the users' options,
``transactional`` and ``tables`` have the calls for transactions and for tables, ``observation`` has the numbers. Only
with their options: ``circuits``, ``codecs``, ``limits``, ``spool``. ``mock`` is the producer of applications' tests.
"""
