"""The options of every client: their declaration, their forms in text and URLs, and their names in other clients.

Options come in as callers give them, and checked values go out; ``client.config`` makes a pydantic model of them.
Kafka's counterpart is ``CommonClientConfigs``.
"""
