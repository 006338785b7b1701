"""What ``ApacheKafka`` is made of: jars, security configuration, ACLs and tools of a real Kafka."""
