"""InitProducerId by hand: the bytes that kio writes, and the fields that kio reads."""

from __future__ import annotations

import pytest

from aiokafkapy.errors import MalformedFrameError
from aiokafkapy.protocol.api import INIT_PRODUCER_ID_BEFORE_TWO_PHASE_COMMIT, ApiKey
from aiokafkapy.protocol.codec import encode_request, encode_response
from aiokafkapy.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokafkapy.protocol.messages import build_request, build_response

VERSIONS = range(INIT_PRODUCER_ID_BEFORE_TWO_PHASE_COMMIT + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_request_is_as_kio_writes_it(version: int) -> None:
    kio = build_request(
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id=None,
        transaction_timeout=60_000,
        producer_id=-1,
        producer_epoch=-1,
    )
    assert encode_request(InitProducerIdRequest(version, 60_000), 7, "me") == encode_request(kio, 7, "me")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("error_code", "producer_id", "epoch"), [(0, 2**40, 3), (51, -1, -1)])
def test_the_response_is_read_as_kio_wrote_it(version: int, error_code: int, producer_id: int, epoch: int) -> None:
    kio = build_response(
        ApiKey.INIT_PRODUCER_ID,
        version,
        throttle_time=250,
        error_code=error_code,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    frame = encode_response(kio, 7)[4:]
    assert InitProducerIdResponse.read(version, frame) == (250, error_code, producer_id, epoch)
    for torn in [*(frame[:size] for size in range(len(frame))), frame + b"\0"]:
        with pytest.raises(MalformedFrameError):
            InitProducerIdResponse.read(version, torn)
