"""Ready batches come in, Produce requests go out; their answers become the batches' outcomes.

Kafka's counterpart is ``Sender``.
"""
