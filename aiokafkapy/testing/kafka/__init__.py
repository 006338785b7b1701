"""The parts of ``ApacheKafka``: jars, the nodes' files, security configuration, ACLs and tools of a real Kafka.

A version, a node's ports, and a test's security settings come in; jars and files on the disk, the lines of a
configuration, and the output of the tools go out.
"""
