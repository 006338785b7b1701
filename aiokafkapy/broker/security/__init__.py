"""Tokens of SASL come in and principals go out; operations of principals come in, and whether each is allowed.

The rules that make a principal of a certificate belong to the listener: see ``broker/principals.py``; the keys of
tokens come from ``broker/token_keys.py``. Decisions only: no sockets, no asyncio and no clock; ``files`` alone
touches the disk. Kafka's counterparts are ``SaslServerAuthenticator``, ``CredentialProvider`` and
``StandardAuthorizer``.
"""
