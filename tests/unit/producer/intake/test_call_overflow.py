"""The policies that a call may choose for its records, and refusals of others."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.errors import IllegalStateError
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.intake.call_overflow import check_overflow

ORDERS = {"orders": {"overflow": "drop_oldest"}}


def config(**options: Any) -> ProducerConfig:
    return ProducerConfig(bootstrap_servers="h:1", **options)


@pytest.mark.parametrize("overflow", ["wait", "raise", "drop_newest"])
def test_a_call_may_choose_any_policy_of_a_topic(overflow: str) -> None:
    check_overflow(config(), "t", overflow)
    check_overflow(config(), None, overflow)


@pytest.mark.parametrize(
    ("overflow", "error", "text"),
    [
        (5, TypeError, "topic 't': overflow is a int, not a str or None"),
        (True, TypeError, "is a bool"),
        ("later", ValueError, "overflow is 'later': write one of wait, raise, drop_newest, drop_oldest"),
        ("", ValueError, "overflow is ''"),
        ("spool", ValueError, "spool is a topic's own, never a call's"),
    ],
)
def test_another_value_is_refused(overflow: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        check_overflow(config(), "t", overflow)


@pytest.mark.parametrize(
    ("options", "overflow", "text"),
    [
        ({"transactional_id": "a"}, "drop_newest", "transactional_id='a': dropped records would leave gaps"),
        ({"enable_gapless_guarantee": True}, "drop_newest", "enable_gapless_guarantee=True"),
        ({}, "drop_oldest", "no topic has overflow='drop_oldest'"),
        ({"manual_flush": True}, "wait", "manual_flush=True: nothing is sent"),
        ({"spool_dir": "/nowhere"}, "raise", "the topic's own, 'spool'"),
    ],
)
def test_a_policy_that_contradicts_an_option_is_refused(options: dict[str, Any], overflow: str, text: str) -> None:
    with pytest.raises(IllegalStateError, match=text):
        check_overflow(config(**options), "t", overflow)


def test_a_call_drops_the_oldest_of_topics_that_agree_and_one_topic_may_keep_out_of_the_spool() -> None:
    check_overflow(config(topics=ORDERS), "t", "drop_oldest")
    spool = config(spool_dir="/nowhere", topics={"t": {"overflow": "wait"}})
    check_overflow(spool, "t", "raise")
    check_overflow(spool, None, "raise")
