"""``MockProducer``: a ``KafkaProducer`` that keeps its records and sends nothing, for tests of the code that sends.

Kafka's counterpart has the same name (``org.apache.kafka.clients.producer.MockProducer``). It is for tests of a
service whose record fails, or is late; ``DevBroker`` is for all other tests, since there the producer is the real one.
``aiokafkapy.testing`` exports it for an application's tests. Calls come in; what goes out is kept for the test, which
gives each record its outcome.
"""
