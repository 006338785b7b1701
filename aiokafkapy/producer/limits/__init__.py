"""The limits of topics: configurations come in as brokers describe them, and limits go out to batches and calls.

``topic_limits`` decides, ``limits_reader`` asks. Imported with ``topic_limits=True`` only; Java has no such room.
"""
