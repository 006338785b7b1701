"""The findings of a check-up, in words: one for each check, and the remedy where the check fails.

Owns the words, and the decisions behind them: a broker's release, the meaning of an advertised address, a certificate
near its end, the faults of a topic. Asks nobody and has no clock: ``doctor`` asks, and hands over the answers. Kafka
has no counterpart.

Rules:

- A finding is one line. A failed one gives the remedy, with the name of the option to set.
- No finding contains a secret: of the credentials it names only the mechanism.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ..client.nodes.api_versions import NodeApiVersions
from ..common import NO_LEADER, PartitionInfo, counted
from ..protocol.api import ApiKey
from ..protocol.constants import AUTHORIZED_OPERATIONS_OMITTED

__all__ = [
    "Finding",
    "Verdict",
    "advertised_finding",
    "certificate_finding",
    "is_loopback",
    "likely_version",
    "rights_finding",
    "topic_finding",
    "version_finding",
]

SOON_DAYS: Final = 30
"""A certificate that ends within so many days is a warning."""
_DAY: Final = 86_400
_WRITE: Final = 4
"""ACL operation's number, and so its bit in a response's ``topic_authorized_operations``."""
_SHOWN: Final = 10
"""Partitions that are named in a line."""


class Verdict(StrEnum):
    """The result of one check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: ``check`` is its kind (``dns``, ``tcp``, ``tls``, ``sasl``, …), ``subject`` its place.

    ``advice`` is empty when there is nothing to do, or the text contains the remedy. ``facts`` are for programs.
    """

    check: str
    subject: str
    verdict: Verdict
    text: str
    advice: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """The whole finding, as JSON has it."""
        return {
            "check": self.check,
            "subject": self.subject,
            "verdict": str(self.verdict),
            "text": self.text,
            "advice": self.advice,
            "facts": dict(self.facts),
        }


def version_finding(address: str, versions: NodeApiVersions, round_trip_ms: float) -> Finding:
    """A broker's description of itself in ApiVersions."""
    finalized = dict(sorted(versions.finalized_features.items()))
    features = ", ".join(f"{name}={level}" for name, level in finalized.items()) or "none"
    likely = likely_version(versions)
    facts = {"likely_version": likely, "round_trip_ms": round_trip_ms, "finalized_features": finalized}
    text = f"answers in {round_trip_ms:g} ms, is likely {likely}; finalized features: {features}"
    if not versions.supports(ApiKey.PRODUCE) or versions.ranges[ApiKey.PRODUCE][1] < _OLDEST_PRODUCE:
        advice = "records of today's format need Kafka 0.11 or newer: update the broker"
        return Finding("versions", address, Verdict.FAILED, text, advice, facts)
    return Finding("versions", address, Verdict.OK, text, facts=facts)


def likely_version(versions: NodeApiVersions) -> str:
    """The most likely release of a broker, by its highest ``metadata.version``, else by its requests' versions.

    Brokers do not tell their release, and other products than Kafka may offer anything.
    """
    _, level = versions.supported_features.get("metadata.version", (0, 0))
    for least, release in _METADATA_LEVELS:
        if level >= least:
            return f"Kafka {release}"
    offered = {key: most for key, (_, most) in versions.ranges.items()}
    for produce, fetch, release in _REQUESTS:
        if offered.get(ApiKey.PRODUCE, -1) >= produce and offered.get(ApiKey.FETCH, -1) >= fetch:
            return f"Kafka {release}, or a compatible broker"
    return "older than Kafka 1.0, or no Kafka"


# MetadataVersion, the level with which each release began; a release has all levels up to the next one's.
_METADATA_LEVELS: Final = (
    (31, "4.4 or newer"),
    (30, "4.3"),
    (28, "4.2"),
    (26, "4.1"),
    (22, "4.0"),
    (21, "3.9"),
    (20, "3.8"),
    (15, "3.7"),
    (12, "3.6"),
    (9, "3.5"),
    (8, "3.4"),
    (4, "3.3"),
    (1, "3.0 to 3.2"),
)
# The highest Produce and Fetch of releases, for brokers without that feature: those with ZooKeeper, and older ones.
_REQUESTS: Final = (
    (13, 0, "4.1 or newer"),
    (12, 0, "4.0"),
    (11, 17, "3.9"),
    (11, 0, "3.8"),
    (10, 0, "3.7"),
    (9, 15, "3.5 or 3.6"),
    (9, 13, "3.1 to 3.4"),
    (9, 0, "2.8 or 3.0"),
    (8, 12, "2.7"),
    (8, 0, "2.4 to 2.6"),
    (7, 0, "2.1 to 2.3"),
    (6, 0, "2.0"),
    (5, 0, "1.0 or 1.1"),
    (3, 0, "0.11"),
)
_OLDEST_PRODUCE: Final = 3


def certificate_finding(
    address: str, certificate: Mapping[str, Any] | None, version: str, cipher: str, now: float
) -> Finding:
    """The agreement of TLS, and the broker's certificate as ``SSLSocket.getpeercert`` has it; ``now`` is wall time.

    A context that checks nothing (``ssl_context``) has no certificate to show.
    """
    facts: dict[str, object] = {"version": version, "cipher": cipher}
    if not certificate:
        text = f"{version}, {cipher}; the certificate is not checked"
        advice = "anybody may be at the other end: leave the ssl_context to aiokafkapy, with ssl_truststore_location"
        return Finding("tls", address, Verdict.WARNING, text, advice, facts)
    ends_at = ssl.cert_time_to_seconds(certificate["notAfter"])
    days = int((ends_at - now) // _DAY)
    names = [name for kind, name in certificate.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
    facts |= {
        "subject": _distinguished(certificate.get("subject", ())),
        "issuer": _distinguished(certificate.get("issuer", ())),
        "names": names,
        "not_after": certificate["notAfter"],
        "days_left": days,
    }
    text = (
        f"{version}, {cipher}; certificate for {', '.join(names) or facts['subject'] or 'no name'}, issued by "
        f"{facts['issuer'] or 'nobody'}, valid for {days:,} days"
    )
    if days < SOON_DAYS:
        advice = f"have it renewed before {certificate['notAfter']}: no client connects afterwards"
        return Finding("tls", address, Verdict.WARNING, text, advice, facts)
    return Finding("tls", address, Verdict.OK, text, facts=facts)


def _distinguished(name: Sequence[Sequence[tuple[str, str]]]) -> str:
    return ", ".join(f"{key}={value}" for part in name for key, value in part)


def is_loopback(host: str) -> bool:
    """True for ``localhost`` and addresses that no other machine reaches."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def advertised_finding(
    node_id: int, address: str, failure: Finding | None, round_trip_ms: float | None, *, is_odd_loopback: bool
) -> Finding:
    """Whether a broker is reached at the address that the cluster gives for it: its ``advertised.listeners``.

    ``failure`` is the error there; ``is_odd_loopback``: the address is this machine's own, while the cluster was
    reached at another.
    """
    check, subject = "broker", f"node {node_id} at {address}"
    facts: dict[str, object] = {"node_id": node_id, "address": address, "round_trip_ms": round_trip_ms}
    if is_odd_loopback:
        text = "the address that it advertises is this machine's own" + (
            "" if failure is None else f"; there: {failure.text}"
        )
        advice = (
            "set advertised.listeners on the broker to a name or address under which clients reach it; behind a tunnel "
            "or in a container, give it a listener of its own for outside"
        )
        verdict = Verdict.WARNING if failure is None else Verdict.FAILED
        return Finding(check, subject, verdict, text, advice, facts)
    if failure is None:
        return Finding(check, subject, Verdict.OK, f"reached where it advertises, in {round_trip_ms:g} ms", facts=facts)
    facts["failed_at"] = failure.check
    text = f"not usable at the address that it advertises: {failure.text}"
    if failure.check in ("dns", "tcp"):
        advice = (
            "records go to this address, not to the one you gave: set advertised.listeners on the broker to a name and "
            "port that this machine reaches, or make this one reachable (DNS, firewall, port mapping)"
        )
    else:
        advice = failure.advice or "compare this broker's listener with the one you gave"
    return Finding(check, subject, Verdict.FAILED, text, advice, facts)


def topic_finding(topic: str, partitions: Sequence[PartitionInfo], node_ids: Collection[int]) -> Finding:
    """Whether records can be written to all partitions of a topic, and whether all replicas have them."""
    leaderless = [one.partition for one in partitions if one.leader == NO_LEADER]
    unreplicated = [one.partition for one in partitions if len(one.in_sync_replicas) < len(one.replicas)]
    leaders = {one.leader for one in partitions} - {NO_LEADER}
    replicas = max((len(one.replicas) for one in partitions), default=0)
    facts = {
        "partitions": len(partitions),
        "replicas": replicas,
        "leaders": sorted(leaders),
        "without_leader": leaderless,
        "under_replicated": unreplicated,
    }
    text = f"{counted(len(partitions), 'partition')}, {counted(replicas, 'replica')} each, led by {len(leaders)} "
    text += f"of {counted(len(node_ids), 'broker')}"
    if leaderless:
        advice = "a broker that has it must come back: see which of its replicas are down"
        text = f"{_named(leaderless)} of {len(partitions)} without a leader"
        return Finding("topic", topic, Verdict.FAILED, text, advice, facts)
    if unreplicated:
        text += f"; not all replicas are in sync of {_named(unreplicated)}"
        advice = "a broker is down or slow; with fewer than min.insync.replicas in sync, writes are refused"
        return Finding("topic", topic, Verdict.WARNING, text, advice, facts)
    return Finding("topic", topic, Verdict.OK, text, facts=facts)


def rights_finding(topic: str, operations: int | None) -> Finding:
    """Whether records may be written, by the bits that Metadata gives when asked (KIP-430): nothing is written."""
    if operations is None or operations == AUTHORIZED_OPERATIONS_OMITTED:
        text = "the broker does not report our rights (it is older than Kafka 2.3)"
        return Finding("acl", topic, Verdict.WARNING, text, "try it: aiokafkapy produce", {"may_write": None})
    if operations >> _WRITE & 1:
        return Finding("acl", topic, Verdict.OK, "we may write", facts={"may_write": True})
    advice = f"give this user the right: kafka-acls --add --allow-principal User:NAME --operation Write --topic {topic}"
    return Finding("acl", topic, Verdict.FAILED, "we may not write", advice, {"may_write": False})


def _named(partitions: Sequence[int]) -> str:
    shown = ", ".join(map(str, partitions[:_SHOWN])) + (", …" if len(partitions) > _SHOWN else "")
    return f"partition{'' if len(partitions) == 1 else 's'} {shown}"
