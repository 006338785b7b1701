"""Deliveries that keep failing make calls fail at once: outcomes of batches come in, and permission for calls goes out.

``circuits`` decides, ``circuit_watch`` reports outcomes to it. Imported with ``circuit_breaker`` only. Java has no
counterpart.
"""
