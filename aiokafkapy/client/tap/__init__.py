"""The wire tap: the frames of one client come in, and JSON lines or a packet capture without secrets go out.

Kafka has no counterpart: there one captures packets, which TLS hides.
"""
