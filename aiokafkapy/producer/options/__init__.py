"""The options of a producer: their declarations, their values, and their contradictions.

A caller's options come in, checked values go out; ``producer.config`` makes a pydantic model of them. Kafka's
counterpart is ``ProducerConfig``.
"""
