from __future__ import annotations

import pytest

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_response
from aiokafkapy.testing.replay.script import Part, ReplayMismatchError, Script

from ..recordings import BROKER, SECOND, Tape, answer, heartbeat, produce, produced, records, request

PLACE = ("kafka.example", 9092)
ELSEWHERE = ("other.example", 9092)
VERSIONS = request(ApiKey.API_VERSIONS, 3, 0)
METADATA = request(ApiKey.METADATA, 9, topics=None)
FIRST, NEXT = produce(records(b"first")), produce(records(b"next"))


def versions(correlation_id: int = 0) -> bytes:
    return answer(ApiKey.API_VERSIONS, 3, correlation_id)


def metadata(cluster_id: str) -> bytes:
    return answer(ApiKey.METADATA, 9, cluster_id=cluster_id)


def ask(part: Part, frame: bytes) -> bytes | None:
    return part.ask(frame[4:]).answer


def test_a_request_gets_its_recorded_answer_with_the_id_that_it_has_now_and_the_time_that_it_took() -> None:
    script = Script(Tape().connected().request(FIRST).answer(produced(7)).read())
    reply = script.connect(PLACE).ask(produce(records(b"first", at=99), correlation_id=55)[4:])
    assert (reply.answer, reply.delay) == (produced(7, correlation_id=55), 0.25)
    assert script.unplayed == []


def test_an_id_that_was_wrong_is_as_wrong_again_and_a_torn_answer_as_torn() -> None:
    script = Script(Tape().connected().request(FIRST).answer(produced(7, 4)).request(NEXT).answer(b"\0\0\0\5\0").read())
    part = script.connect(PLACE)
    assert ask(part, produce(records(b"first"), 11)) == produced(7, 14)
    assert ask(part, produce(records(b"next"), 12)) == b"\0\0\0\5\0"


def test_a_request_without_an_answer_gets_none() -> None:
    script = Script(Tape().connected().request(FIRST).read())
    part = script.connect(PLACE)
    assert ask(part, FIRST) is None
    assert part.end() is None


def test_a_client_that_stays_where_the_recorded_one_had_left_gets_the_answer_from_elsewhere() -> None:
    left = Tape().connected(1).connected(2).request(METADATA, 1).closed(1, by="client")
    script = Script(left.request(METADATA, 2).answer(metadata("one"), 2).read())
    part = script.connect(PLACE)
    reply = part.ask(METADATA[4:])
    assert (reply.answer, reply.delay) == (metadata("one"), 0.25)
    assert ask(part, METADATA) == metadata("one")


def test_a_request_that_the_cluster_left_unanswered_is_again() -> None:
    silent = Tape().connected(1).request(METADATA, 1).closed(1).connected(2)
    skipped = Tape().connected(1).request(METADATA, 1).request(VERSIONS, 1).answer(versions(), 1).closed(1, by="client")
    for made in (silent, skipped.connected(2)):
        part = Script(made.request(METADATA, 2).answer(metadata("one"), 2).read()).connect(PLACE)
        assert ask(part, METADATA) is None


def test_requests_of_one_api_come_in_their_order_and_those_of_another_when_they_like() -> None:
    made = Tape().connected().request(FIRST).answer(produced(0)).request(heartbeat()).answer(b"\0\0\0\4beat")
    script = Script(made.request(NEXT).answer(produced(1)).read())
    part = script.connect(PLACE)
    assert ask(part, heartbeat()) is not None
    assert script.unplayed == ["PRODUCE v9 (line 3) of connection 1", "PRODUCE v9 (line 7) of connection 1"]
    with pytest.raises(ReplayMismatchError) as caught:
        ask(part, NEXT)
    assert str(caught.value) == (
        "connection 1 to kafka.example:9092: expected PRODUCE v9 (line 3), and PRODUCE v9 came: "
        "topic_data[0].partition_data[0].records[0].records[0].value is b'next', and b'first' in the recording"
    )
    assert script.mismatches == [caught.value]
    assert (caught.value.connection, caught.value.came) == (1, "PRODUCE v9")


def test_a_request_of_another_version_or_too_many_is_a_mismatch() -> None:
    part = Script(Tape().connected().request(FIRST).answer(produced(0)).read()).connect(PLACE)
    with pytest.raises(ReplayMismatchError, match=r"expected PRODUCE v9 \(line 3\), and PRODUCE v8 came$"):
        ask(part, produce(records(b"first"), version=8))
    assert ask(part, FIRST) is not None
    with pytest.raises(ReplayMismatchError, match=r"expected nothing more on it, and PRODUCE v9 came$"):
        ask(part, FIRST)


def test_a_heartbeat_too_many_gets_the_last_answer_again_and_one_too_few_is_not_a_fault() -> None:
    made = Tape().connected().request(heartbeat()).answer(answer(ApiKey.HEARTBEAT, 4))
    made.request(heartbeat()).answer(answer(ApiKey.HEARTBEAT, 4, error_code=27))
    script = Script(made.request(heartbeat(generation=2)).answer(answer(ApiKey.HEARTBEAT, 4, throttle_time=1)).read())
    part = script.connect(PLACE)
    assert script.unplayed == []
    assert ask(part, heartbeat(generation=2)) == answer(ApiKey.HEARTBEAT, 4, throttle_time=1)
    assert ask(part, heartbeat()) == answer(ApiKey.HEARTBEAT, 4)
    for _ in range(2):
        assert ask(part, heartbeat()) == answer(ApiKey.HEARTBEAT, 4, error_code=27)
    with pytest.raises(ReplayMismatchError, match="HEARTBEAT"):
        ask(part, heartbeat(generation=3))


def test_metadata_come_in_the_order_of_the_recording_whichever_connection_asks() -> None:
    made = Tape().connected(1).request(METADATA).answer(metadata("one"))
    made.connected(2, SECOND).request(METADATA, 2).answer(metadata("two"), 2)
    script = Script(made.request(METADATA).answer(metadata("three")).read())
    first, second = script.connect(PLACE), script.connect(ELSEWHERE)
    assert [ask(part, METADATA) for part in (second, first, first, second)] == [
        metadata("one"), metadata("two"), metadata("three"), metadata("three"),
    ]  # fmt: skip


def test_metadata_of_some_of_the_recorded_topics_is_a_part_of_a_recorded_answer() -> None:
    def said(*names: str, controller: int) -> bytes:
        topics = [{"name": name, "topic_id": None, "error_code": 0} for name in names]
        return answer(ApiKey.METADATA, 9, topics=topics, controller_id=controller)

    def wanted(*names: str) -> bytes:
        return request(ApiKey.METADATA, 9, topics=[{"name": name} for name in names])

    made = Tape().connected().request(wanted("a", "b")).answer(said("a", "b", controller=1))
    script = Script(made.request(wanted("a", "b")).answer(said("a", "b", controller=2)).read())
    part = script.connect(PLACE)
    assert ask(part, wanted("b")) == said("b", controller=1)
    assert ask(part, wanted("b", "a")) == said("a", "b", controller=1)
    assert ask(part, wanted("b", "a")) == said("a", "b", controller=2)
    assert ask(part, wanted("a")) == said("a", controller=2)
    assert ask(part, wanted()) == said(controller=2)
    with pytest.raises(ReplayMismatchError, match=r"topics has 3 entries, and 2 in the recording"):
        ask(part, wanted("a", "b", "c"))
    with pytest.raises(ReplayMismatchError, match=r"topics\[0\]\.name is 'c', and 'b' in the recording|has 1 entries"):
        ask(part, wanted("c"))


def two_connections() -> Script:
    made = Tape()
    for number, (sent, offset) in enumerate(((FIRST, 1), (NEXT, 2)), 1):
        made.connected(number).request(VERSIONS, number).answer(versions(), number)
        made.request(sent, number).answer(produced(offset), number)
    return Script(made.read())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_connections_that_open_in_another_order_are_told_apart_by_their_requests(order: tuple[int, int]) -> None:
    script = two_connections()
    parts = [script.connect(PLACE), script.connect(PLACE)]
    for part in parts:
        assert ask(part, VERSIONS) == versions()
    assert ask(parts[order[0]], FIRST) == produced(1)
    assert ask(parts[order[1]], NEXT) == produced(2)
    assert script.mismatches == []


def test_a_settled_connection_is_not_taken_for_another() -> None:
    script = two_connections()
    part = script.connect(PLACE)
    assert ask(part, FIRST) == produced(1)
    with pytest.raises(ReplayMismatchError):
        ask(part, NEXT)


def test_a_connection_that_ended_before_it_was_settled_leaves_its_part_to_the_next() -> None:
    script = two_connections()
    part = script.connect(PLACE)
    ask(part, VERSIONS)
    part.ended()
    assert ask(script.connect(PLACE), FIRST) == produced(1)


def test_a_connection_more_than_were_recorded_is_greeted_and_nothing_else() -> None:
    made = Tape().connected().request(VERSIONS).answer(versions()).request(FIRST).answer(produced(0))
    script = Script(made.read())
    own, more = script.connect(PLACE), script.connect(PLACE)
    assert ask(own, VERSIONS) == versions()
    assert ask(own, FIRST) == produced(0)
    assert ask(more, VERSIONS) == versions()
    with pytest.raises(
        ReplayMismatchError, match=r"a connection to kafka\.example:9092: expected no further connection"
    ):
        ask(more, FIRST)


def test_connections_to_two_brokers_are_two() -> None:
    made = Tape(servers=(BROKER, SECOND)).connected(1).request(FIRST).answer(produced(1))
    script = Script(made.connected(2, SECOND).request(FIRST, 2).answer(produced(2), 2).read())
    assert ask(script.connect(ELSEWHERE), FIRST) == produced(2)
    assert ask(script.connect(PLACE), FIRST) == produced(1)


def test_the_cluster_ends_a_connection_when_all_has_come_that_came_before() -> None:
    made = Tape().connected().request(FIRST).answer(produced(0)).request(heartbeat()).request(NEXT)
    script = Script(made.closed(reset=True).read())
    part = script.connect(PLACE)
    assert part.end() is None
    ask(part, FIRST)
    assert part.end() is None
    ask(part, NEXT)  # a heartbeat may be left out
    assert part.end() == (0.25, True)


def test_a_connection_that_the_cluster_ended_at_once_is_ended_at_once_and_those_of_the_client_are_not() -> None:
    script = Script(Tape().connected(1).closed(1).connected(2).closed(2, by="client").read())
    assert script.connect(PLACE).end() == (0.25, False)
    assert script.connect(PLACE).end() is None
    assert script.connect(PLACE).end() is None


def test_bytes_that_answered_nothing_come_after_as_many_requests() -> None:
    made = Tape().connected().answer(b"hello", number=None).request(FIRST).answer(b"more", number=None)
    part = Script(made.read()).connect(PLACE)
    assert part.unasked() == [b"hello"]
    ask(part, FIRST)
    assert part.unasked() == [b"more"]
    assert part.unasked() == []


def sasl(version: int) -> Tape:
    handshake = request(ApiKey.SASL_HANDSHAKE, version, mechanism="PLAIN")
    made = Tape().connected().request(handshake).answer(answer(ApiKey.SASL_HANDSHAKE, version, mechanisms=["PLAIN"]))
    if version:
        proof = request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=bytes(12))
        made.request(proof, hidden=True).answer(answer(ApiKey.SASL_AUTHENTICATE, 2))
    else:
        bare = {"api_key": -1, "version": -1, "correlation_id": -1, "hidden": True}
        made.request(b"\0\0\0\x0c" + bytes(12), **bare).answer(b"\0\0\0\0")
    return made.request(FIRST).answer(produced(0))


@pytest.mark.parametrize("version", [0, 1])
def test_a_password_of_any_length_gets_the_recorded_answer(version: int) -> None:
    script = Script(sasl(version).read())
    part = script.connect(PLACE)
    ask(part, request(ApiKey.SASL_HANDSHAKE, version, mechanism="PLAIN"))
    if version:
        proof = request(ApiKey.SASL_AUTHENTICATE, 2, 8, auth_bytes=b"\0bob\0another")
        assert ask(part, proof) == answer(ApiKey.SASL_AUTHENTICATE, 2, 8)
    else:
        assert ask(part, b"\0\0\0\x10\0bob\0another one") == b"\0\0\0\0"
    assert ask(part, FIRST) == produced(0)
    assert script.mismatches == []


def test_a_recording_with_sasl_is_played_to_a_client_without() -> None:
    script = Script(sasl(1).read())
    assert ask(script.connect(PLACE), FIRST) == produced(0)
    assert script.unplayed == []


def test_a_mechanism_with_proofs_is_refused_in_words() -> None:
    part = Script(sasl(1).read()).connect(PLACE)
    with pytest.raises(ReplayMismatchError, match=r"SASL's SCRAM-SHA-256 came.*security_protocol=PLAINTEXT"):
        ask(part, request(ApiKey.SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-256"))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_client_that_asks_for_sasl_is_told_that_a_recording_without_it_has_none(mechanism: str) -> None:
    """Our client asks a listener that closed on it."""
    script = Script(Tape().connected().request(FIRST).answer(produced(0)).read())
    asking = script.connect(PLACE)
    told = ask(asking, request(ApiKey.SASL_HANDSHAKE, 1, 7, mechanism=mechanism))
    assert told == answer(ApiKey.SASL_HANDSHAKE, 1, 7, error_code=34, mechanisms=())
    asking.ended()
    assert ask(script.connect(PLACE), FIRST) == produced(0)


def test_bytes_that_are_not_a_request_are_a_mismatch() -> None:
    part = Script(Tape().connected().request(FIRST).read()).connect(PLACE)
    with pytest.raises(ReplayMismatchError, match="and no request of Kafka's came"):
        part.ask(b"GET / HTTP/1.1")


def fetch(*places: tuple[int, int], session_id: int = 0, epoch: int = 0, forgotten: tuple[int, ...] = ()) -> bytes:
    """A request for these partitions of orders, each from an offset."""
    partitions = [{"partition": number, "fetch_offset": offset} for number, offset in places]
    return request(
        ApiKey.FETCH,
        12,
        topics=[{"topic": "orders", "partitions": partitions}] if places else [],
        forgotten_topics_data=[{"topic": "orders", "partitions": list(forgotten)}] if forgotten else [],
        session_id=session_id,
        session_epoch=epoch,
    )


def fetched(*places: tuple[int, bytes], session_id: int = 0, error_code: int = 0) -> bytes:
    """An answer with these records."""
    partitions = [{"partition_index": number, "records": data, "aborted_transactions": []} for number, data in places]
    responses = [{"topic": "orders", "partitions": partitions}] if places else []
    return answer(ApiKey.FETCH, 12, session_id=session_id, error_code=error_code, responses=responses)


def records_in(frame: bytes | None) -> dict[int, bytes]:
    assert frame is not None
    _, body = decode_response(ApiKey.FETCH, 12, frame[4:])
    assert (body.session_id, body.error_code) == (0, 0)
    return {each.partition_index: bytes(each.records) for topic in body.responses for each in topic.partitions}


def a_session() -> Part:
    """Three answers of one: each time a partition is left out, which has nothing new."""
    made = Tape().connected()
    made.request(fetch((0, 0), (1, 0))).answer(fetched((0, b"a"), (1, b""), session_id=3))
    made.request(fetch((0, 1), session_id=3, epoch=1)).answer(fetched((1, b"b"), session_id=3))
    made.request(fetch((1, 1), (2, 0), session_id=3, epoch=2)).answer(fetched((0, b"c"), (2, b"d"), session_id=3))
    return Script(made.read()).connect(PLACE)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([(1, 0)], {1: b"b"}),  # not its first answer, which was empty
        ([(0, 1), (2, 0)], {0: b"c", 2: b"d"}),
        ([(0, 0), (1, 1)], {0: b"a", 1: b""}),  # which no answer names
    ],
)
def test_a_fetch_gets_the_records_that_a_session_was_told_in_another_combination(
    places: list[tuple[int, int]], expected: dict[int, bytes]
) -> None:
    assert records_in(ask(a_session(), fetch(*places))) == expected


def test_a_session_that_goes_another_way_is_ended_and_its_client_goes_on_without() -> None:
    part = a_session()
    assert ask(part, fetch((0, 0), (1, 0))) == fetched((0, b"a"), (1, b""), session_id=3)
    assert ask(part, fetch(session_id=3, epoch=1, forgotten=(0,))) == fetched(error_code=70)
    assert records_in(ask(part, fetch((1, 0), session_id=3))) == {1: b"b"}
    assert records_in(ask(part, fetch((1, 1)))) == {1: b""}
    with pytest.raises(ReplayMismatchError, match="FETCH v12 came"):
        ask(part, fetch((1, 2)))


def test_a_session_may_be_closed_that_was_left_open() -> None:
    assert ask(a_session(), fetch(session_id=3, epoch=-1)) == fetched()
