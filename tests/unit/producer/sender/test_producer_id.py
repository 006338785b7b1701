"""InitProducerId: requested early, repeated only while records need it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aiokafkapy.errors import ClusterAuthorizationFailedError, DisconnectedError, KafkaError, UnsupportedVersionError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import encode_request
from aiokafkapy.protocol.messages import build_request, build_response

from ..sender_fakes import SenderHarness, batches_of


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> SenderHarness:
    """A Sender that has no producer id yet."""
    monkeypatch.setattr(SenderHarness, "give_producer_id", lambda self, *_: None)
    harness = SenderHarness()
    monkeypatch.undo()
    return harness


def body(error_code: int = 0) -> Any:
    return build_response(ApiKey.INIT_PRODUCER_ID, 4, error_code=error_code, producer_id=7, producer_epoch=3)


def test_an_id_is_asked_for_before_there_is_a_record(harness: SenderHarness) -> None:
    harness.run()
    (request,) = harness.take()
    assert request.api_key == ApiKey.INIT_PRODUCER_ID
    assert request.build is not None
    expected = build_request(
        ApiKey.INIT_PRODUCER_ID, 4, transaction_timeout=2**31 - 1, producer_id=-1, producer_epoch=-1
    )
    assert encode_request(request.build(4), 7, "me") == encode_request(expected, 7, "me")
    harness.run()
    assert harness.take() == []
    harness.append()
    harness.run()
    assert harness.take() == []  # nothing is sent without it
    harness.respond(request, body())
    (batch,) = batches_of(harness.send())
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 0)


def test_a_node_that_is_not_ready_is_waited_for(harness: SenderHarness) -> None:
    harness.client.not_ready.update({1, 2})
    harness.run()
    assert harness.take() == []
    assert harness.metadata.need_full_update
    harness.client.not_ready.clear()
    harness.run()
    assert len(harness.take()) == 1


@pytest.mark.parametrize("failure", [{"body": body(15)}, {"disconnected": True}, {"error": DisconnectedError("gone")}])
def test_a_failure_that_may_pass_is_repeated_with_back_off_while_records_wait(
    harness: SenderHarness, failure: dict[str, Any]
) -> None:
    harness.run()
    (request,) = harness.take()
    harness.respond(request, **failure)
    assert harness.run() == float("inf")  # an idle producer stays idle
    delivery = harness.append()
    assert 0 < harness.run() <= 0.12
    harness.advance(0.12)
    (request,) = harness.take()
    assert request.api_key == ApiKey.INIT_PRODUCER_ID
    assert not delivery.done()


@pytest.mark.parametrize(("code", "level"), [(14, logging.DEBUG), (15, logging.WARNING)])
def test_a_broker_that_has_only_just_started_causes_no_warning(
    harness: SenderHarness, caplog: pytest.LogCaptureFixture, code: int, level: int
) -> None:
    """The broker has no block of ids from the controller yet, COORDINATOR_LOAD_IN_PROGRESS, but a moment later."""
    caplog.set_level(logging.DEBUG)
    harness.run()
    (request,) = harness.take()
    harness.respond(request, body(code))
    assert [record.levelno for record in caplog.records if "producer_id.failed" in record.getMessage()] == [level]


def test_closing_the_producer_before_it_has_one_causes_no_warning(
    harness: SenderHarness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    harness.run()
    (request,) = harness.take()
    harness.client.is_active = False
    harness.respond(request, error=DisconnectedError("the network client was closed"))
    assert [record.levelno for record in caplog.records if "producer_id.failed" in record.getMessage()] == [
        logging.DEBUG
    ]


@pytest.mark.parametrize(
    ("failure", "error", "remedy"),
    [
        ({"body": body(31)}, ClusterAuthorizationFailedError, "IDEMPOTENT_WRITE"),
        ({"error": UnsupportedVersionError("no")}, UnsupportedVersionError, "enable_idempotence=False"),
    ],
)
def test_a_lasting_error_fails_waiting_records_and_has_the_remedy(
    harness: SenderHarness, failure: dict[str, Any], error: type[KafkaError], remedy: str
) -> None:
    delivery = harness.append()
    harness.run()
    (request,) = harness.take()
    harness.respond(request, **failure)
    found = delivery.exception()
    assert isinstance(found, error)
    assert remedy in str(found)
    # Permissions can be given while we run.
    following = harness.append()
    harness.advance(0.2)
    (request,) = harness.take()
    harness.respond(request, body())
    harness.answer(harness.send())
    assert following.result().offset == 0
