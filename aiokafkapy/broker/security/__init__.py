"""Rights on the dev broker: ACLs and the authorizer, principals, and the broker's half of SASL.

Decisions only: no sockets, no asyncio and no clock; ``files`` alone touches the disk.
"""
