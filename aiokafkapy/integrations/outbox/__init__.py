"""The outbox: records written in a service's own database transaction, and published by a relay.

    outbox_records = outbox_table(metadata)                       # a Table of the service's own MetaData
    outbox = Outbox(outbox_records)

    async with AsyncSession(engine) as session, session.begin():  # both rows are committed, or none
        session.add(order)
        await outbox.add(session, "orders", order.to_bytes(), key=order.customer)

    async with OutboxRelay(engine, outbox_records, "kafka:9092"): ...

A row of a committed transaction comes in; a record goes to the broker, and the row is marked or deleted. ``outbox``
writes rows; ``relay`` takes them in batches from a database (``database``, ``postgresql``, ``sqlite``) to a publisher
(``publisher``: at least once; ``transactional_publisher``: exactly once). ``lanes``, ``rows``, ``outcomes``, ``holds``
and ``markers`` decide and do no I/O. Kafka has no counterpart; Debezium's outbox router reads the database's log
instead.

Rules, and why they hold:

- Rows of a lane keep their order. A lane is a topic's key, or the partition that a row names, or the topic's rows with
  neither. A row's shard follows from its lane, and a shard is published by one relay at a time, by id.
- Of one lane, a row that was added after another's transaction had committed is published after it. Its id is higher,
  since a sequence without a cache gave it later; and a reader that sees it also sees the other, which was committed
  before. That needs no wait for open transactions: a lower id may become visible later, but only from a transaction
  that ran beside the others.
- Among concurrent transactions, ``Outbox`` makes those of one key wait for each other on PostgreSQL, from the first
  ``add`` to the commit (an advisory lock), so that ids are in the order of commits. SQLite has one writer at a time
  anyway. Waiting for ``pg_snapshot_xmin`` would not suffice: transaction ids are in the order in which transactions
  begin.
- ``pg_try_advisory_lock`` skips locked shards here, and never rows, as ``SKIP LOCKED`` would: a skipped row is
  overtaken.
- A row is marked after its record was acknowledged. If the relay ends in between, the row is published again: at least
  once.
- Exactly once: the rows' marker is committed in one Kafka transaction with their records, and a relay that takes the
  shard fences the relay before it, reads the marker, and marks those rows before it publishes any other.
"""

from __future__ import annotations

try:
    import sqlalchemy.ext.asyncio  # noqa: F401  # the extra is there, or this says how to get it
except ImportError as error:
    raise ImportError(
        "the outbox needs SQLAlchemy 2 and an asynchronous driver: pip install 'aiokafkapy[outbox]'"
    ) from error

from .outbox import Outbox
from .relay import OutboxRelay
from .statistics import OutboxBacklog, OutboxStatistics
from .table import outbox_table

__all__ = ["Outbox", "OutboxBacklog", "OutboxRelay", "OutboxStatistics", "outbox_table"]
