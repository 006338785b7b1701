"""Outcomes of batches and requests come in; observers, metrics by place, and records' timings go out.

Nothing here decides anything. Without an option that asks for it, no part of this room is made. Kafka's counterpart is
``SenderMetricsRegistry`` with the sensors of ``Selector``.
"""
