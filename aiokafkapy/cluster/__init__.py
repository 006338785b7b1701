"""What the client knows of the cluster: an immutable view, how answers are merged into it, and when to ask again.

Pure: no asyncio, no socket, no clock; ``now`` is an argument.
"""
