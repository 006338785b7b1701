"""The releases of Kafka, and the differences between them that clients see.

Owns the differences that are not in the versions of the APIs; those are in ``releases.json``, which
``python -m tests.kafka.releases`` makes from each release's own jars (``ApiKeys`` of kafka-clients, the features of
kafka-server-common) and tests compare with brokers. An API's line there has the releases that changed its range: of
3.2 and before those of a broker with ZooKeeper, since then of one with KRaft, and no unstable versions.

Most of a release follows from its ranges alone:

- 0.11 and 1.0 have no fetch sessions (Fetch 7, KIP-227); before 2.1 there are no leader epochs in Metadata and Fetch
  (KIP-320); before 2.2 no member ids before the join (KIP-394); before 2.8 no topic ids in Metadata (KIP-516), since
  3.1 Fetch has them; FindCoordinator has batches since 3.0 (KIP-699);
- groups of KIP-848, client metrics (KIP-714) and share groups (KIP-932) are there since the releases of their APIs;
- before 2.7 a fenced producer is told INVALID_PRODUCER_EPOCH, and not PRODUCER_FENCED (KIP-588), by its version.

The others, each from the source of the releases on both sides of it:

- ApiVersions of an unknown version: UNSUPPORTED_VERSION in version 0, since 2.4 with ApiVersions' own range (KIP-511),
  in earlier releases without any (``ApiVersionsRequest.getErrorResponse`` of 2.3 and 2.4);
- zstd: since 2.1 (KIP-110). ``CompressionType.forId`` of 2.0 knows no codec 4, and that is an IllegalArgumentException,
  which ``ReplicaManager.appendToLocalLog`` makes UNKNOWN_SERVER_ERROR: UNSUPPORTED_COMPRESSION_TYPE is of 2.1;
- a record that is refused (no key on a compacted topic): INVALID_RECORD since 2.4 (KIP-467), in earlier releases
  CORRUPT_MESSAGE, as ``record.InvalidRecordException`` was a CorruptRecordException;
- the first batch of a producer whose earlier records are gone: taken since 2.5 (KIP-360), in earlier releases
  UNKNOWN_PRODUCER_ID (``ProducerAppendInfo.checkSequence`` of 2.4 and 2.5), in 0.11 OUT_OF_ORDER_SEQUENCE_NUMBER;
- ``min.insync.replicas`` above a partition's number of replicas: acks=all asks for these alone since 3.7
  (``Partition.effectiveMinIsr``, KAFKA-15583), in earlier releases it is refused with NOT_ENOUGH_REPLICAS forever;
- a transactional batch for a partition that was not added to the transaction: refused since 3.6 (KIP-890's first part,
  ``transaction.partition.verification.enable``), in earlier releases taken, and then it is a transaction that never
  ends;
- ListOffsets of a negative time that the request's version does not have: UNSUPPORTED_VERSION since 3.9 (``KafkaApis``
  of 3.8 and 3.9), in earlier releases it has its meaning in any version; a negative time that has no meaning in the
  release is looked up as any other time;
- features: known since 2.7 (KIP-584), metadata.version since 3.3, transaction.version (KIP-890) and group.version
  (KIP-848) since 4.0; in earlier releases transactions have version 1, and consumer groups are answered with
  UNSUPPORTED_VERSION where their API is there, as in 3.7 to 3.9 without ``group.coordinator.rebalance.protocols``.

Left out: old message formats, so Produce before 3 and Fetch before 4 close the connection as in Kafka 4, and clients
of releases before 0.11 find no broker; versions of other APIs that Kafka 4 has dropped (KIP-896); that 0.11 remembers
one batch of a producer and not five; topics' options and their defaults; that a broker with ZooKeeper has no limit of
10,000 partitions for a new topic.

Tests compare 3.9 and 4.1 with real brokers. Real 2.0.1, 2.4.1 and 2.8.2 (with ZooKeeper) were once asked about the
table, unknown versions, codecs, refused records and lost producers, 2.8.2 also with the scenarios of
``tests/kafka/test_dev_broker_agrees.py``; 0.11 does not run on today's Java.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Mapping
from functools import cache

from ...errors import UnknownServerError
from ...record.compression import Compression
from .model import Emulation, FeatureLevels, UnknownApiVersions, UnknownProducer

__all__ = ["release", "release_names"]


@cache
def release_names() -> tuple[str, ...]:
    """The minor releases, the oldest first."""
    return tuple(_table()["releases"])


@cache
def release(name: str) -> Emulation:
    """A minor release by its name, such as ``2.8``. KeyError when there is none."""
    table = _table()
    jar = table["releases"][name]
    number = _number(name)
    apis = {int(api.split()[0]): _at(name, changes) for api, changes in table["apis"].items()}
    features = {feature: _at(name, changes) for feature, changes in table["features"].items()}
    return Emulation(
        version=name,
        name=f"Kafka {name}",
        source=f"the jars of Kafka {jar}",
        apis={key: (found[0], found[1]) for key, found in apis.items() if found is not None},
        features={feature: FeatureLevels(*found) for feature, found in features.items() if found is not None},
        unknown_api_versions=UnknownApiVersions.ITS_OWN if number >= (2, 4) else UnknownApiVersions.NONE,
        refused_codecs={} if number >= (2, 1) else {Compression.ZSTD: UnknownServerError.code},
        names_invalid_records=number >= (2, 4),
        has_features=number >= (2, 7),
        checks_special_times=number >= (3, 9),
        caps_min_insync_replicas=number >= (3, 7),
        verifies_transactions=number >= (3, 6),
        unknown_producer=_unknown_producer(number),
    )


def _unknown_producer(number: tuple[int, ...]) -> UnknownProducer:
    if number >= (2, 5):
        return UnknownProducer.TAKEN
    return UnknownProducer.UNKNOWN if number >= (1, 0) else UnknownProducer.OUT_OF_ORDER


def _at(name: str, changes: str) -> tuple[int, ...] | None:
    """The numbers that hold for a release, out of ``0.11 0-3, 1.0 0-5``; None for ``-`` or an older release."""
    found: tuple[int, ...] | None = None
    for change in changes.split(", "):
        since, numbers = change.split(" ")
        if _number(since) > _number(name):
            break
        found = None if numbers == "-" else tuple(map(int, numbers.split("-")))
    return found


def _number(name: str) -> tuple[int, ...]:
    return tuple(map(int, name.split(".")))


@cache
def _table() -> Mapping[str, Mapping[str, str]]:
    data = pkgutil.get_data(__name__, "releases.json")
    if data is None:
        raise FileNotFoundError("releases.json is missing beside this module")
    found: dict[str, dict[str, str]] = json.loads(data)
    return found
