"""What ``ApacheKafka`` is made of: jars, the nodes' files, security configuration, ACLs and tools of a real Kafka.

Comes in: a version, a node's ports, and what a test wants of its security. Goes out: jars and files on the disk, the
lines of a configuration, and what the tools print.
"""
