"""The peer's identity: TLS and SASL, for clients and for the dev broker.

In come settings and bytes, out go an ``ssl.SSLContext``, bytes for the peer, and errors with their remedies. ``tls``
has certificates, ``sasl`` has one file per mechanism with both halves where a broker needs one. The connection's set-up
drives them; nothing here opens a connection to a broker. Kafka's counterpart is ``org.apache.kafka.common.security``.

Rules:

- No asyncio, no clock and no socket except in ``tls_transport``, which does the handshake on a connection, and in
  ``sasl.tokens``, ``sasl.oidc``, ``sasl.cloud_identity``, ``sasl.aws_credentials`` and ``sasl.http_json``, which fetch
  a mechanism's credentials.
- A secret is in a holder whose ``repr`` hides it, and no message has a secret in it.
- Extras (``gssapi``, ``httpx``, ``jwt``, ``botocore``) are imported when a mechanism that needs one is made.
"""
