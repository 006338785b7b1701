"""What the client knows of the cluster: an immutable view, how responses are merged into it, and when to update it.

Pure: no asyncio, no socket, no clock; ``now`` is an argument.
"""
