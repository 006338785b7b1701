"""The options of every client: how they are declared, parsed from text and URLs, and named in other clients.

What a caller gave comes in, checked values go out; ``client.config`` makes a pydantic model of them. Kafka's
counterpart is ``CommonClientConfigs``.
"""
