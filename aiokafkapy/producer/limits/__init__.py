"""The limits of topics: in come their configurations, as brokers describe them; out go limits, to batches and to calls.

``topic_limits`` decides, ``limits_reader`` asks. Imported with ``topic_limits=True`` only; Java has no such room.
"""
