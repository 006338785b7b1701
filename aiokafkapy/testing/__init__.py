"""Test tools for applications, which our own tests use too.

A producer that sends nothing, ``assert_produced``, a real Apache Kafka of one or several nodes, a schema registry,
throw-away certificates, a proxy that breaks connections and requests on command and records conversations, a broker
that replays them, connections in memory, a virtual clock, and the pytest plugin (``aiokafkapy.testing.pytest_plugin``),
installed through its entry point. Virtual time, seeds and faults for a whole service are
``aiokafkapy.testing.simulation``. ``DevBroker`` itself is in ``aiokafkapy.broker``.

A test's options, scripts and faults come in; servers to connect to, and the records and requests that came, go out.

Rule: importing this package imports none of its modules, since pytest loads the plugin in every run of every user;
names are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .apache_kafka import ApacheKafka
    from .assertions import assert_produced
    from .certificates import TestCertificates
    from .clock import VirtualClock
    from .fault_proxy import FaultProxy
    from .kafka.acls import Acl
    from .kafka.jars import KafkaUnavailableError
    from .kafka.security import KafkaSecurity, KerberosSettings, Listener
    from .kafka.tools import KafkaToolError, KafkaTools
    from .memory_network import in_memory
    from .mock_producer import MockProducer
    from .recording import Recording, RecordingError
    from .replay import ReplayBroker, ReplayMismatchError
    from .schema_registry import SchemaRegistry

__all__ = [
    "Acl",
    "ApacheKafka",
    "FaultProxy",
    "KafkaSecurity",
    "KafkaToolError",
    "KafkaTools",
    "KafkaUnavailableError",
    "KerberosSettings",
    "Listener",
    "MockProducer",
    "Recording",
    "RecordingError",
    "ReplayBroker",
    "ReplayMismatchError",
    "SchemaRegistry",
    "TestCertificates",
    "VirtualClock",
    "assert_produced",
    "in_memory",
]

_HOMES = {
    "Acl": "kafka.acls",
    "ApacheKafka": "apache_kafka",
    "FaultProxy": "fault_proxy",
    "KafkaSecurity": "kafka.security",
    "KafkaToolError": "kafka.tools",
    "KafkaTools": "kafka.tools",
    "KafkaUnavailableError": "kafka.jars",
    "KerberosSettings": "kafka.security",
    "Listener": "kafka.security",
    "MockProducer": "mock_producer",
    "Recording": "recording",
    "RecordingError": "recording",
    "ReplayBroker": "replay",
    "ReplayMismatchError": "replay",
    "SchemaRegistry": "schema_registry",
    "TestCertificates": "certificates",
    "VirtualClock": "clock",
    "assert_produced": "assertions",
    "in_memory": "memory_network",
}

if not TYPE_CHECKING:  # it would give every name a type, and misspelt ones too
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)
