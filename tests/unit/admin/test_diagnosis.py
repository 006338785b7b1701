"""The words of a check-up: each failed finding has its remedy."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.admin.diagnosis import (
    Finding,
    Verdict,
    advertised_finding,
    certificate_finding,
    is_loopback,
    likely_version,
    rights_finding,
    topic_finding,
    version_finding,
)
from aiokafkapy.client.nodes.api_versions import NodeApiVersions
from aiokafkapy.common import NO_LEADER, PartitionInfo
from aiokafkapy.protocol.api import ApiKey

DAY = 86_400
CERTIFICATE: dict[str, Any] = {
    "subject": ((("commonName", "kafka-1"),),),
    "issuer": ((("organizationName", "Acme"),), (("commonName", "Acme CA"),)),
    "subjectAltName": (("DNS", "kafka-1.example.com"), ("IP Address", "10.0.0.1"), ("URI", "x:y")),
    "notAfter": "Jan 31 00:00:00 1970 GMT",
}


def offering(produce: int, fetch: int = 4, **supported: int) -> NodeApiVersions:
    levels = {name.replace("_", "."): (1, level) for name, level in supported.items()}
    return NodeApiVersions({ApiKey.PRODUCE: (0, produce), ApiKey.FETCH: (0, fetch)}, supported_features=levels)


@pytest.mark.parametrize(
    ("versions", "release"),
    [
        # As these releases of Kafka offer it.
        (offering(13, 18, metadata_version=27), "Kafka 4.1"),
        (offering(12, 17, metadata_version=25), "Kafka 4.0"),
        (offering(11, 17, metadata_version=21), "Kafka 3.9"),
        (offering(9, 13, metadata_version=7), "Kafka 3.3"),
        (offering(9, 12), "Kafka 2.8 or 3.0, or a compatible broker"),
        (offering(8, 11), "Kafka 2.4 to 2.6, or a compatible broker"),
        (offering(2), "older than Kafka 1.0, or no Kafka"),
    ],
)
def test_a_release_is_known_by_the_versions_it_offers(versions: NodeApiVersions, release: str) -> None:
    assert likely_version(versions) == release


def test_a_broker_without_todays_format_of_records_fails() -> None:
    assert version_finding("h:1", offering(9), 0.4).verdict is Verdict.OK
    old = version_finding("h:1", offering(2), 0.4)
    assert (old.verdict, "0.11 or newer" in old.advice) == (Verdict.FAILED, True)


def test_a_certificate_is_described_by_its_names_its_issuer_and_its_last_day() -> None:
    found = certificate_finding("h:1", CERTIFICATE, "TLSv1.3", "SUITE", now=-40 * DAY)
    assert found.verdict is Verdict.OK
    assert found.facts["names"] == ["kafka-1.example.com", "10.0.0.1"]
    assert "issued by organizationName=Acme, commonName=Acme CA, valid for 70 days" in found.text
    soon = certificate_finding("h:1", CERTIFICATE, "TLSv1.3", "SUITE", now=0.5 * DAY)
    assert (soon.verdict, soon.facts["days_left"]) == (Verdict.WARNING, 29)
    assert "before Jan 31 00:00:00 1970 GMT" in soon.advice


def test_a_certificate_that_nobody_checks_is_warned_of() -> None:
    assert certificate_finding("h:1", {}, "TLSv1.3", "SUITE", now=0).verdict is Verdict.WARNING


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("localhost", "LocalHost.", "127.3.2.1", "::1")),
        *((host, False) for host in ("10.0.0.1", "local.example", "0.0.0.0", "::")),
    ],
)
def test_the_own_machine_is_known_by_name_and_address(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def failure(check: str, advice: str = "") -> Finding:
    return Finding(check, "h:1", Verdict.FAILED, "it went wrong", advice)


def test_an_advertised_address_that_is_not_reached_names_the_option_of_the_broker() -> None:
    well = advertised_finding(1, "h:1", None, 0.5, is_odd_loopback=False)
    assert (well.verdict, well.advice) == (Verdict.OK, "")
    for check in ("dns", "tcp"):
        lost = advertised_finding(1, "h:1", failure(check), None, is_odd_loopback=False)
        assert (lost.verdict, lost.facts["failed_at"]) == (Verdict.FAILED, check)
        assert "set advertised.listeners on the broker" in lost.advice
    refused = advertised_finding(1, "h:1", failure("tls", "trust it"), None, is_odd_loopback=False)
    assert refused.advice == "trust it"


def test_a_broker_that_advertises_the_own_machine_to_others_is_odd_even_when_something_answers() -> None:
    answered = advertised_finding(1, "localhost:1", None, 0.5, is_odd_loopback=True)
    refused = advertised_finding(1, "localhost:1", failure("tcp"), None, is_odd_loopback=True)
    assert (answered.verdict, refused.verdict) == (Verdict.WARNING, Verdict.FAILED)
    assert "in a container, give it a listener of its own" in refused.advice


def partition(number: int, leader: int = 1, in_sync: tuple[int, ...] = (1, 2)) -> PartitionInfo:
    return PartitionInfo("t", number, leader, 0, (1, 2), in_sync, ())


def test_a_topic_is_whole_under_replicated_or_without_leaders() -> None:
    assert topic_finding("t", [partition(0), partition(1, 2)], [1, 2]).text == (
        "2 partitions, 2 replicas each, led by 2 of 2 brokers"
    )
    behind = topic_finding("t", [partition(0), partition(1, in_sync=(1,))], [1, 2])
    assert (behind.verdict, behind.facts["under_replicated"]) == (Verdict.WARNING, [1])
    dead = topic_finding("t", [partition(number, NO_LEADER, ()) for number in range(12)], [1])
    assert dead.verdict is Verdict.FAILED
    assert "partitions 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … of 12 without a leader" in dead.text


def test_rights_are_read_from_the_bits_of_the_answer() -> None:
    assert rights_finding("t", 1 << 4 | 1 << 8).verdict is Verdict.OK
    assert rights_finding("t", 1 << 8).verdict is Verdict.FAILED
    assert rights_finding("t", -(2**31)).verdict is Verdict.WARNING
    assert rights_finding("t", None).verdict is Verdict.WARNING


def test_a_finding_as_json_has_plain_values() -> None:
    assert failure("tls", "do").as_json() == {
        "check": "tls",
        "subject": "h:1",
        "verdict": "failed",
        "text": "it went wrong",
        "advice": "do",
        "facts": {},
    }
