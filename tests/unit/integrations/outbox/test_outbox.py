"""The outbox without a database: its error without its extra, and its statements for PostgreSQL."""

from __future__ import annotations

import subprocess
import sys

import sqlalchemy as sa

from aiokafkapy import ProducerRecord
from aiokafkapy.integrations.outbox import Outbox, outbox_table
from aiokafkapy.integrations.outbox.outbox import channel_of

KEYED = [ProducerRecord("t", b"v", b"%d" % number) for number in (2, 1, 2)]


def statements(outbox: Outbox, *records: ProducerRecord, dialect: str = "postgresql") -> list[tuple[str, object]]:
    made = outbox._statements(records)
    assert made is not None
    return [(str(text).partition("(")[0], values) for text, values in made.before(dialect)]


def test_without_the_extra_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['sqlalchemy'] = None; import aiokafkapy.integrations.outbox"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith("an asynchronous driver: pip install 'aiokafkapy[outbox]'")


def test_keys_are_locked_once_each_in_one_order_and_the_commit_is_announced() -> None:
    (lock, locks), (notify, channel) = statements(Outbox(outbox_table(sa.MetaData())), *KEYED)
    assert (lock, notify) == ("SELECT count", "SELECT pg_notify")
    assert isinstance(locks, dict)
    assert locks["numbers"] == sorted(set(locks["numbers"]))
    assert len(locks["numbers"]) == 2
    assert channel == {"channel": "aiokafkapy_outbox"}


def test_a_row_without_a_key_of_its_own_lane_is_not_locked() -> None:
    outbox = Outbox(outbox_table(sa.MetaData()))
    for record in (ProducerRecord("t", b"v"), ProducerRecord("t", b"v", b"k", 0)):
        assert [text for text, _ in statements(outbox, record)] == ["SELECT pg_notify"]


def test_locks_and_notifications_are_for_postgresql_and_can_be_left_out() -> None:
    table = outbox_table(sa.MetaData())
    assert statements(Outbox(table), *KEYED, dialect="sqlite") == []
    assert statements(Outbox(table, orders_keys=False, notifies=False), *KEYED) == []


def test_a_channel_is_as_long_as_postgresql_takes() -> None:
    assert channel_of(outbox_table(sa.MetaData(), "x" * 80)) == "x" * 63
