"""The options of a producer: how they are declared, their values, and which of them contradict each other.

What a caller gave comes in, checked values go out; ``producer.config`` makes a pydantic model of them. Kafka's
counterpart is ``ProducerConfig``.
"""
