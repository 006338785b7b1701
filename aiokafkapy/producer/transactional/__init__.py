"""The calls of a transactional producer come in, requests to the coordinators go out, and each end has one outcome.

Kafka's counterparts are the transactional halves of ``KafkaProducer`` and ``TransactionManager``.
"""
