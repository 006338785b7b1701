"""Test tools for applications, which our own tests use too.

A producer that sends nothing, ``assert_produced``, a real Apache Kafka of one or several nodes, a schema registry,
throw-away certificates, a proxy that breaks connections and requests on command and records conversations, a broker
that replays them, connections in memory, a virtual clock, and the pytest plugin (``aiokafkapy.testing.pytest_plugin``),
installed through its entry point. Virtual time, seeds and faults for a whole service are
``aiokafkapy.testing.simulation``. ``DevBroker`` itself is in ``aiokafkapy.broker``.

Rule: importing this package imports none of its modules, since pytest loads the plugin in every run of every user;
names are imported on first access.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiokafkapy.testing.apache_kafka import ApacheKafka
    from aiokafkapy.testing.assertions import assert_produced
    from aiokafkapy.testing.certificates import TestCertificates
    from aiokafkapy.testing.clock import VirtualClock
    from aiokafkapy.testing.fault_proxy import FaultProxy
    from aiokafkapy.testing.kafka_acls import Acl
    from aiokafkapy.testing.kafka_jars import KafkaUnavailableError
    from aiokafkapy.testing.kafka_security import KafkaSecurity, KerberosSettings, Listener
    from aiokafkapy.testing.kafka_tools import KafkaToolError, KafkaTools
    from aiokafkapy.testing.memory_network import in_memory
    from aiokafkapy.testing.mock_producer import MockProducer
    from aiokafkapy.testing.recording import Recording, RecordingError
    from aiokafkapy.testing.replay import ReplayBroker, ReplayMismatchError
    from aiokafkapy.testing.schema_registry import SchemaRegistry

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
    "Acl": "kafka_acls",
    "ApacheKafka": "apache_kafka",
    "FaultProxy": "fault_proxy",
    "KafkaSecurity": "kafka_security",
    "KafkaToolError": "kafka_tools",
    "KafkaTools": "kafka_tools",
    "KafkaUnavailableError": "kafka_jars",
    "KerberosSettings": "kafka_security",
    "Listener": "kafka_security",
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


def __getattr__(name: str) -> object:
    """Import the module that holds ``name`` on first access."""
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)
