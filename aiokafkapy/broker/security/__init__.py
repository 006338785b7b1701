"""Rights on the dev broker: ACLs and the authorizer, and the broker's half of SASL.

The rules that make a principal of a certificate belong to the listener: see ``broker/principals.py``.
Decisions only: no sockets, no asyncio and no clock; ``files`` alone touches the disk.
"""
