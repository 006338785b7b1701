"""Faults on demand: calls of ``Controls`` come in as data, alone or on a schedule, and armed faults go out.

Kafka's counterpart is Trogdor, which injects faults into real clusters.
"""
