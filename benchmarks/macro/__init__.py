"""Workloads against a real Kafka, one process per measurement."""
