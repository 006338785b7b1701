"""The data source against Spark's own Kafka connector, on the same real Kafka: ``python -m benchmarks spark``."""
