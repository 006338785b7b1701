"""One file per API: requests come in, and responses go out.

Each registers its handler in ``registry``, with the versions that it really handles, and ``dispatch_table`` finds them
all, so adding an API means adding a file. A broker that emulates a release or a product serves those of its versions
that are registered. Kafka's counterpart is ``KafkaApis``, a method of which answers each API.
"""
