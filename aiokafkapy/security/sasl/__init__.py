"""SASL: one file per mechanism, each a state machine of bytes, with the broker's half where the dev broker has one.

In come settings, challenges and responses; out go bytes, a principal, or SaslAuthenticationFailedError. ``mechanism``
has the interfaces and chooses the client's half, ``server`` chooses the broker's. The connection's set-up carries the
bytes (SaslHandshake, SaslAuthenticate) and knows no mechanism. Kafka's counterparts are ``common.security.plain``,
``.scram``, ``.oauthbearer`` and ``.kerberos``.
"""
