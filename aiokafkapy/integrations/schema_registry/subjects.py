"""The subject under which a schema is registered: Confluent's three strategies, and the form of a user's strategy.

A strategy takes the topic, a flag for the key's schema, and the name of the record's type; it returns the subject.
Confluent's counterparts are ``TopicNameStrategy``, ``RecordNameStrategy`` and ``TopicRecordNameStrategy``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ...errors import ConfigurationError

__all__ = ["SubjectNameStrategy", "record_name_strategy", "topic_name_strategy", "topic_record_name_strategy"]

SubjectNameStrategy: TypeAlias = Callable[[str, bool, str | None], str]


def topic_name_strategy(topic: str, is_key: bool, record_name: str | None) -> str:
    """``<topic>-key`` or ``<topic>-value``: one schema for a topic, with its versions. The default."""
    return f"{topic}-key" if is_key else f"{topic}-value"


def record_name_strategy(topic: str, is_key: bool, record_name: str | None) -> str:
    """The type's full name: one schema for a type, in all its topics."""
    return _named(topic, record_name)


def topic_record_name_strategy(topic: str, is_key: bool, record_name: str | None) -> str:
    """``<topic>-<type>``: several types in a topic, each with its own versions there."""
    return f"{topic}-{_named(topic, record_name)}"


def _named(topic: str, record_name: str | None) -> str:
    if not record_name:
        raise ConfigurationError(
            f"topic {topic!r}: the subject is to have the type's name, and the schema has none: "
            "give an Avro schema a record, a JSON Schema a title, or use topic_name_strategy"
        )
    return record_name
