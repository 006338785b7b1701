"""Deliveries that keep failing make calls fail at once: in come outcomes of batches, out goes whether a call is let in.

``circuits`` decides, ``circuit_watch`` tells it of outcomes. Imported with ``circuit_breaker`` only. Java has no
counterpart.
"""
