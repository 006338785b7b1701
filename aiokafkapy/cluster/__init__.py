"""The client's view of the cluster, which is immutable, how responses are merged into it, and when to update it.

Pure: no asyncio, no socket, no clock; ``now`` is an argument.
"""
