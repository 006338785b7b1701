"""Rights on the dev broker: ACLs and the authorizer, and the broker's half of SASL.

The rules that make a principal of a certificate are a listener's: ``principals``, which knows none of these.
Decisions only: no sockets, no asyncio and no clock; ``files`` alone touches the disk.
"""
