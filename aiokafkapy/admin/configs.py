"""The options of a topic from DescribeConfigs, and changes of them for IncrementalAlterConfigs.

Owns the contents of both requests; ``TopicAdmin`` sends them. Kafka's counterparts are ``ConfigEntry`` and
``AlterConfigOp``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..protocol.codec import Struct

__all__ = ["ConfigEntry", "ConfigSource", "ConfigValue", "config_changes", "config_text", "entry_of"]

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)

ConfigValue = str | int | float | bool | list[str] | tuple[str, ...]
"""A value that an option may be set to: True is written as ``true``, a list with commas."""


class ConfigSource(enum.IntEnum):
    """The sources of a value; Kafka's names and numbers."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    """It was set for the topic itself."""
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    """It is in the broker's file of properties."""
    DEFAULT_CONFIG = 5
    """It is Kafka's own default."""

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN  # of a later Kafka


class ConfigEntry(NamedTuple):
    """An option's value, and its source. The value of a sensitive option is None: brokers do not give it away."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool = False
    is_read_only: bool = False

    @property
    def is_own(self) -> bool:
        """True where the topic itself sets it."""
        return self.source is ConfigSource.DYNAMIC_TOPIC_CONFIG

    @property
    def is_default(self) -> bool:
        """True for Kafka's own default: neither the topic nor a broker sets it."""
        return self.source is ConfigSource.DEFAULT_CONFIG


def entry_of(entry: Struct) -> ConfigEntry:
    """An option of a DescribeConfigs response of version 1 or later."""
    is_sensitive = bool(entry.is_sensitive)
    value = None if is_sensitive else entry.value
    return ConfigEntry(entry.name, value, ConfigSource(entry.config_source), is_sensitive, bool(entry.read_only))


def config_text(name: str, value: object) -> str:
    """The value as Kafka reads it; raises TypeError for an unsupported type."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    raise TypeError(f"{name}={value!r}: an option is a str, int, float, bool or list of str; delete=[…] takes one back")


def config_changes(
    set: Mapping[str, ConfigValue] | None,  # noqa: A002 - the public method's own names
    delete: Iterable[str],
    append: Mapping[str, ConfigValue] | None,
    subtract: Mapping[str, ConfigValue] | None,
) -> list[dict[str, object]]:
    """The entries of an IncrementalAlterConfigs request; raises TypeError for a value of an unsupported type."""
    if isinstance(delete, str):
        raise TypeError(f"delete={delete!r}: give a list of names")
    changes = [
        {"name": name, "config_operation": operation, "value": config_text(name, value)}
        for operation, values in ((_SET, set), (_APPEND, append), (_SUBTRACT, subtract))
        for name, value in (values or {}).items()
    ]
    return changes + [{"name": name, "config_operation": _DELETE, "value": None} for name in delete]
