"""aiokafkapy.integrations.schema_registry.subjects: Confluent's three strategies."""

from __future__ import annotations

import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.integrations.schema_registry.subjects import (
    record_name_strategy,
    topic_name_strategy,
    topic_record_name_strategy,
)


def test_a_subject_is_of_the_topic_the_type_or_both() -> None:
    assert topic_name_strategy("orders", False, None) == "orders-value"
    assert topic_name_strategy("orders", True, "shop.Order") == "orders-key"
    assert record_name_strategy("orders", False, "shop.Order") == "shop.Order"
    assert topic_record_name_strategy("orders", False, "shop.Order") == "orders-shop.Order"


def test_a_schema_without_a_name_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="the schema has none"):
        record_name_strategy("orders", False, None)
