"""Who is at the other end, and proof of it: TLS, and the mechanisms of SASL for clients and brokers."""
