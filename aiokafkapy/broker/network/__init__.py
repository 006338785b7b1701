"""Connections come in, whole requests go out to the handlers; responses go back the same way.

Kafka's counterpart is ``SocketServer`` with its ``RequestChannel``.
"""
