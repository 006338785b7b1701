"""The wait of a micro-batch for more records."""

from __future__ import annotations

from aiokafkapy.spark.source.trigger_delay import TriggerDelay


def test_the_first_micro_batch_never_waits() -> None:
    assert not TriggerDelay(5, 900.0).must_wait(0, now=100.0)


def test_a_micro_batch_waits_while_it_has_too_few_records() -> None:
    delay = TriggerDelay(5, 900.0)
    delay.must_wait(0, now=100.0)
    assert delay.must_wait(4, now=101.0)
    assert not delay.must_wait(5, now=102.0)
    assert delay.must_wait(4, now=103.0)


def test_a_micro_batch_waits_no_longer_than_the_delay_since_the_last_one() -> None:
    delay = TriggerDelay(5, 900.0)
    delay.must_wait(0, now=100.0)
    assert delay.must_wait(1, now=999.9)
    assert not delay.must_wait(1, now=1_000.0)
    assert delay.must_wait(1, now=1_899.9), "the delay begins anew with each micro-batch"
    assert not delay.must_wait(1, now=1_900.0)
