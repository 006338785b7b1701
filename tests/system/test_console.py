"""The console over HTTP, on a dev broker: its views, its changes, and its access."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker, FaultSchedule
from aiokafkapy.console import Console
from aiokafkapy.console.broker_source import BrokerSource
from aiokafkapy.console.cluster_source import ClusterSource
from aiokafkapy.console.registry import RegistryDecoder
from aiokafkapy.integrations.schema_registry import AvroSerializer, SchemaRegistryClient
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.schema_registry import SchemaRegistry
from tests.inside import running_nodes_of
from tests.raw_client import RawClient
from tests.system.console_pages import events, page_of

TOKEN = "a-token-of-24-characters"
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "item", "type": "string"}]}


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker(3, console=True) as broker:
        broker.create_topic("orders", 3)
        yield broker


@pytest.fixture
async def page(broker: DevBroker) -> AsyncIterator[httpx.AsyncClient]:
    async with page_of(broker.console.url) as page:
        yield page


async def message(page: httpx.AsyncClient, view: str) -> dict[str, Any]:
    """The first message of a view."""
    async for found in events(page, "api/live", view=view):
        return found
    raise AssertionError("the stream has ended")


# views


async def test_the_page_and_its_parts_are_served_and_may_load_nothing_from_elsewhere(page: httpx.AsyncClient) -> None:
    answer = await page.get("/")
    assert answer.status_code == 200
    assert "<title>aiokafkapy console</title>" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    for name in ("console.js", "views.js", "records.js", "faults.js", "chart.js", "dom.js", "console.css", "icon.svg"):
        part = await page.get(f"/static/{name}")
        assert part.status_code == 200, name
        assert "https://" not in part.text
    assert (await page.get("/static/../console.py")).status_code == 404
    assert (await page.get("/api/nothing")).status_code == 404


async def test_an_emulated_release_is_shown_beside_the_name_of_the_cluster() -> None:
    for version, kind in ((None, "dev broker"), ("2.8", "dev broker as Kafka 2.8")):
        async with DevBroker(console=True, version=version) as broker, page_of(broker.console.url) as page:
            assert (await message(page, "topics"))["cluster"]["kind"] == kind


async def test_topics_groups_and_clients_are_shown_as_they_are(broker: DevBroker, page: httpx.AsyncClient) -> None:
    async with KafkaProducer(broker.bootstrap_servers, client_id="shop", transactional_id="shop-1") as producer:
        async with producer.transaction():
            await producer.send_many("orders", [b"book"] * 10)
        found = await message(page, "topics")
        (topic,) = found["view"]["rows"]
        assert (topic["name"], topic["partitions"], topic["replicas"]) == ("orders", 3, 3)
        assert topic["records"] >= 10  # and the marker
        assert [node["node_id"] for node in found["cluster"]["nodes"]] == [1, 2, 3]
        rows = (await message(page, "clients"))["view"]["rows"]
        # Another test's client may look for its own broker, which had this port before.
        clients = [client for client in rows if client["client_id"] == "shop"]
        assert clients
        assert all(client["software"].startswith("aiokafkapy ") for client in clients)
        assert any("PRODUCE" in client["versions"] for client in clients)
        (transaction,) = (await message(page, "transactions"))["view"]["rows"]
        assert (transaction["transactional_id"], transaction["state"]) == ("shop-1", "CompleteCommit")
        requests = (await message(page, "requests"))["view"]
        produce = next(row for row in requests["rows"] if row["api"] == "PRODUCE")
        assert (produce["client_id"], produce["outcome"]) == ("shop", "ok")
        assert produce["total_ms"] >= produce["local_ms"] > 0


async def test_a_refused_version_is_not_a_success_in_the_request_log(
    broker: DevBroker, page: httpx.AsyncClient
) -> None:
    """ApiVersions of an unknown version is answered, as the only one; of another API it closes the connection."""
    for api, version in ((ApiKey.API_VERSIONS, 77), (ApiKey.METADATA, 99)):
        async with RawClient(broker.nodes[0]) as client:
            client.writer.write(struct.pack(">ihhihx", 11, api, version, 7, -1))
            await client.reader.read(1)
    rows = (await message(page, "requests"))["view"]["rows"]
    assert {(row["api"], row["version"]): row["outcome"] for row in rows} == {
        ("API_VERSIONS", 77): "UnsupportedVersionError",
        ("METADATA", 99): "closed",
    }


async def test_a_client_that_is_throttled_is_shown_so(broker: DevBroker, page: httpx.AsyncClient) -> None:
    broker.controls.throttle("shop", 40)
    async with KafkaProducer(broker.bootstrap_servers, client_id="shop") as producer:
        await producer.send("orders", b"book")
        clients = (await message(page, "clients"))["view"]["rows"]
        throttled = {client["throttle_ms"] for client in clients if "PRODUCE" in client["versions"]}
        assert throttled == {40.0}
        rows = (await message(page, "requests"))["view"]["rows"]
        assert {row["throttle_ms"] for row in rows if row["api"] == "PRODUCE"} == {40.0}


async def test_a_group_is_shown_with_members_and_lag(broker: DevBroker, page: httpx.AsyncClient) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send_many("orders", [b"book"] * 9)
    consumer = aiokafka.AIOKafkaConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="billing",
        client_id="bill",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        taken = await consumer.getone()
        place = aiokafka.TopicPartition("orders", taken.partition)
        await consumer.commit({place: taken.offset + 1})
        (group,) = (await message(page, "groups"))["view"]["rows"]
        assert (group["group_id"], group["state"], group["members"]) == ("billing", "Stable", 1)
        detail = (await message(page, "group:billing"))["view"]
        (member,) = detail["members"]
        assert (member["client_id"], member["assignment"]) == ("bill", ["orders-0", "orders-1", "orders-2"])
        committed = {each["partition"]: each for each in detail["offsets"]}
        end = broker.records("orders", taken.partition)[-1].offset + 1
        assert committed[taken.partition]["lag"] == end - taken.offset - 1 == group["lag"]
        partitions = (await message(page, "topic:orders"))["view"]["partitions"]
        (lag,) = partitions[taken.partition]["lags"]
        assert (lag["group_id"], lag["committed"]) == ("billing", taken.offset + 1)
    finally:
        await consumer.stop()


@pytest.mark.parametrize("over_requests", [False, True], ids=["inside", "by requests"])
async def test_a_group_of_the_newer_protocol_has_its_members_too(broker: DevBroker, over_requests: bool) -> None:
    async with RawClient(broker.nodes[0], "bill") as client:
        fields = {"member_epoch": 0, "rebalance_timeout": 10_000, "subscribed_topic_names": ["orders"]}
        named = {"group_id": "billing", "member_id": "m-1", "instance_id": "till-1", "topic_partitions": []}
        broker.controls.move_coordinator("billing", 1)
        body = await client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields, **named)
        assert body.error_code == 0, body
        source: Any = ClusterSource(broker.bootstrap_servers) if over_requests else BrokerSource(broker)
        await source.start()
        try:
            await source.sample()
            (group,) = await source.groups()
            assert (group.kind, group.members, group.protocol) == ("consumer (KIP-848)", 1, "uniform")
            detail = await source.group("billing")
            (member,) = detail.members
            assert (member.client_id, member.instance_id) == ("bill", "till-1")
            assert member.assignment == ["orders-0", "orders-1", "orders-2"]
            assert {one.member for one in detail.offsets} == {"bill"}
        finally:
            await source.stop()


@pytest.mark.parametrize("over_requests", [False, True], ids=["inside", "by requests"])
async def test_a_share_group_has_its_members_too(broker: DevBroker, over_requests: bool) -> None:
    broker.controls.move_coordinator("billing", 1)
    async with RawClient(broker.nodes[0], "bill") as client:
        for member in ("m-1", "m-2", "m-3", "m-4"):
            fields = {"group_id": "billing", "member_id": member, "member_epoch": 0}
            body = await client.call(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **fields, subscribed_topic_names=["orders"])
            assert body.error_code == 0, body
        (topic,) = body.assignment.topic_partitions
        start = {"topic_name": "orders", "partitions": [{"partition_index": 1, "start_offset": 0}]}
        source: Any = ClusterSource(broker.bootstrap_servers) if over_requests else BrokerSource(broker)
        await source.start()
        try:
            await source.sample()
            (group,) = await source.groups()
            assert (group.kind, group.members, group.protocol) == ("share (KIP-932)", 4, "simple")
            detail = await source.group("billing")
            assert {member.client_id for member in detail.members} == {"bill"}
            assert [f"orders-{index}" for index in topic.partitions] in [each.assignment for each in detail.members]
            for member in ("m-1", "m-2", "m-3", "m-4"):
                fields = {"group_id": "billing", "member_id": member, "member_epoch": -1}
                await client.call(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **fields)
            body = await client.call(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id="billing", topics=[start])
            assert body.error_code == 0, body
            shown = [(each.partition, each.committed) for each in (await source.group("billing")).offsets]
            assert shown == ([] if over_requests else [(1, 0)])
        finally:
            await source.stop()


async def test_records_are_followed_with_a_filter_and_opened_whole(broker: DevBroker, page: httpx.AsyncClient) -> None:
    stream = events(page, "api/follow", topic="orders", filter="item:9 -gone")
    await anext(stream)
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        sent = [producer.send("orders", b"item:%d" % n, key=b"k", headers=[("trace", b"abc")]) for n in range(8, 12)]
        await asyncio.gather(*sent)
    rows: list[Any] = []
    async for found in stream:
        rows += found["rows"]
        if rows:
            break
    await stream.aclose()
    (row,) = rows
    assert row["value"]["text"] == "item:9"
    asked = {"topic": "orders", "partition": row["partition"], "from": f"offset:{row['offset']}"}
    whole = (await page.get("api/record", params=asked)).json()
    assert (whole["key"]["text"], whole["headers"][0][0], whole["headers"][0][1]["text"]) == ("k", "trace", "abc")


@pytest.mark.parametrize("start", ["earliest", "last:100", "offset:0", "time:0"])
async def test_records_are_read_from_a_position_on(start: str, broker: DevBroker, page: httpx.AsyncClient) -> None:
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        await producer.send_many("orders", [str(n).encode() for n in range(30)])
    found = (await page.get("api/records", params={"topic": "orders", "from": start})).json()
    assert sorted(int(row["value"]["text"]) for row in found["rows"]) == list(range(30))
    assert found["is_at_end"]
    pages: list[Any] = []
    after = start
    while not pages or not pages[-1]["is_at_end"]:
        asked: dict[str, str | int] = {"topic": "orders", "from": after, "limit": 7}
        pages.append((await page.get("api/records", params=asked)).json())
        after = pages[-1]["next"]
    assert len(pages[0]["rows"]) == 7
    assert sorted(int(row["value"]["text"]) for one in pages for row in one["rows"]) == list(range(30))


async def test_avro_is_shown_by_its_schema(broker: DevBroker) -> None:
    async with SchemaRegistry() as registry, SchemaRegistryClient(registry.url) as client:
        serializer: Any = AvroSerializer(client, ORDER, auto_register_schemas=True)
        async with KafkaProducer(broker.bootstrap_servers, value_serializer=serializer) as producer:
            await producer.send("orders", {"item": "book"})
        decoder = RegistryDecoder(registry.url)
        async with Console.of_broker(broker, registry=decoder) as console, page_of(console.url) as page:
            found = (await page.get("api/records", params={"topic": "orders", "from": "earliest"})).json()
    value = found["rows"][0]["value"]
    assert (value["form"], json.loads(value["text"])) == ("avro", {"item": "book"})


# changes


async def test_a_record_is_written_where_it_says(broker: DevBroker, page: httpx.AsyncClient) -> None:
    body = {"topic": "orders", "key": "k", "value": "hello", "headers": [["a", "1"], ["b", None]], "partition": 2}
    answer = await page.post("api/records", json=body)
    assert answer.json() == {"partition": 2, "offset": 0}
    (record,) = broker.records("orders", 2)
    assert (record.key, record.value, list(record.headers)) == (b"k", b"hello", [("a", b"1"), ("b", None)])
    for form, text, value in (
        ("hex", "00ff", b"\0\xff"),
        ("base64", base64.b64encode(b"\0\xff").decode(), b"\0\xff"),
        ("json", '{"a": 1}', b'{"a": 1}'),
        ("text", None, None),
    ):
        await page.post("api/records", json={"topic": "orders", "value": text, "value_form": form, "partition": 0})
        assert broker.records("orders", 0)[-1].value == value


async def test_a_key_goes_where_a_producer_sends_it(broker: DevBroker, page: httpx.AsyncClient) -> None:
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        for n in range(10):
            sent = await producer.send("orders", b"v", key=b"key-%d" % n)
            found = (await page.post("api/records", json={"topic": "orders", "key": f"key-{n}", "value": "v"})).json()
            assert found == {"partition": sent.partition, "offset": sent.offset + 1}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"value": "v"}, 400, "topic is missing"),
        ({"topic": "nowhere", "value": "v"}, 409, "there is no topic 'nowhere'"),
        ({"topic": "orders", "value": "v", "partition": 7}, 409, "there is no partition orders-7"),
        ({"topic": "orders", "value": "v", "partition": -1}, 400, "partition=-1: it is a number, or null"),
        ({"topic": "orders", "value": 7}, 400, "value=7: it is a text, or null"),
        ({"topic": "orders", "value": "xyz", "value_form": "hex"}, 400, "value is no hex"),
        ({"topic": "orders", "value": "{", "value_form": "json"}, 400, "value is no json"),
        ({"topic": "orders", "value": "v", "value_form": "xml"}, 400, "value_form='xml'"),
        ({"topic": "orders", "value": "v", "headers": [["a"]]}, 400, "['a'] is not a header"),
        ({"topic": "orders", "value": "x" * 1_100_000}, 409, "exceeds the maximum configured value"),
        ([], 400, "the body is not a JSON object"),
    ],
)
async def test_a_record_that_cannot_be_written_is_refused(
    body: Any, status: int, message: str, broker: DevBroker, page: httpx.AsyncClient
) -> None:
    answer = await page.post("api/records", json=body)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["error"]
    assert broker.records("orders") == []


async def test_a_body_without_an_end_is_not_kept(page: httpx.AsyncClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1_000):
            yield b"x" * 100_000

    answer = await page.post("api/records", content=endless(), headers={"content-type": "application/json"})
    assert (answer.status_code, "more than 4194304 bytes" in answer.text) == (400, True)


async def test_a_control_is_called_and_is_on_the_timeline(broker: DevBroker, page: httpx.AsyncClient) -> None:
    call = {"api": "PRODUCE", "error": "NotLeaderOrFollowerError", "times": 2}
    assert (await page.post("api/controls/fail_next", json=call)).status_code == 200
    broker.controls.delay(ApiKey.FETCH, 0.25)  # a test's own call is there, too
    found = await message(page, "topics")
    assert [(event["control"], event["is_end"]) for event in found["events"]] == [
        ("fail_next", False),
        ("delay", False),
    ]
    assert found["faults"]["delays"] == {"FETCH": 0.25}
    assert (found["faults"]["armed"][0]["error"], found["faults"]["armed"][0]["remaining"]) == (
        "NotLeaderOrFollowerError",
        2,
    )
    async with KafkaProducer(broker.bootstrap_servers, retries=5, retry_backoff_ms=1) as producer:
        await producer.send("orders", b"book")
    rows = (await message(page, "requests"))["view"]["rows"]
    assert [row["outcome"] for row in rows if row["api"] == "PRODUCE"][:2] == ["NotLeaderOrFollowerError"] * 2
    assert (await page.post("api/controls/clear", json={})).json() == {"result": None}
    assert (await message(page, "topics"))["faults"]["delays"] == {}


async def test_an_armed_fault_of_the_timeline_is_ended_alone(broker: DevBroker, page: httpx.AsyncClient) -> None:
    call = {"api": "PRODUCE", "error": "NotLeaderOrFollowerError", "times": None}
    name = (await page.post("api/controls/fail_next", json=call)).json()["result"]
    broker.controls.drop_next(ApiKey.FETCH, times=None, name="a test's own")
    assert (await page.post("api/controls/end_fault", json={"name": name})).json() == {"result": True}
    found = await message(page, "topics")
    assert [(event["fault"], event["is_end"]) for event in found["events"]] == [
        (name, False),
        ("a test's own", False),
        (None, True),
    ]
    assert [fault["name"] for fault in found["faults"]["armed"]] == ["a test's own"]
    wrong = await page.post("api/controls/end_fault", json={"name": "fault-7"})
    assert (wrong.status_code, "no fault has had this name" in wrong.json()["error"]) == (400, True)


@pytest.mark.parametrize(
    ("control", "body", "status", "message"),
    [
        ("explode", {}, 400, "there is no control 'explode'"),
        ("stop_node", {}, 400, "stop_node: node_id is missing"),
        ("stop_node", {"node_id": 9}, 400, "there is no node 9: the nodes are [1, 2, 3]"),
        ("set_leader", {"topic": "nowhere", "partition": 0, "node_id": 1}, 409, "There is no partition nowhere-0"),
        ("request_count", {"api": "PRODUCE"}, 400, "there is no control"),
    ],
)
async def test_a_control_that_cannot_be_called_is_refused(
    control: str, body: dict[str, Any], status: int, message: str, page: httpx.AsyncClient
) -> None:
    answer = await page.post(f"api/controls/{control}", json=body)
    assert (answer.status_code, message in answer.json()["error"]) == (status, True), answer.text


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("controls/fail_next", '{"api": [1], "error": "X"}', "there is no such API"),
        ("controls/fail_next", '{"api": "PRODUCE", "error": {}}', "no error that a broker sends has this name"),
        ("controls/delay", '{"api": "PRODUCE", "seconds": 1%s}', "it is a number"),
        ("schedule", '{"schedule": {"seconds": 10, "faults": []}, "speed": 1%s}', "it is a number"),
        ("schedule", '{"schedule": {"seconds": 1%s, "faults": []}}', "write a number"),
        ("schedule", '{"schedule": {"seconds": 1, "faults": [{"at": 1%s, "control": "clear"}]}}', "write a number"),
    ],
)
async def test_json_that_fits_no_argument_is_refused(
    path: str, body: str, message: str, page: httpx.AsyncClient
) -> None:
    content = body.replace("%s", "0" * 400)
    answer = await page.post(f"api/{path}", content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, message in answer.json()["error"]) == (400, True), answer.text


async def test_a_dropped_connection_is_in_the_request_log(broker: DevBroker, page: httpx.AsyncClient) -> None:
    broker.controls.drop_next(ApiKey.PRODUCE)
    async with KafkaProducer(broker.bootstrap_servers, retry_backoff_ms=1) as producer:
        await producer.send("orders", b"book")
    rows = (await message(page, "requests"))["view"]["rows"]
    assert "closed" in {row["outcome"] for row in rows if row["api"] == "PRODUCE"}


async def test_a_stopped_node_and_a_stalled_one_are_seen(broker: DevBroker, page: httpx.AsyncClient) -> None:
    await page.post("api/controls/stop_node", json={"node_id": 2})
    await page.post("api/controls/stall_connections", json={"node_id": 3})
    nodes = (await message(page, "topics"))["cluster"]["nodes"]
    assert [(node["is_running"], node["is_stalled"]) for node in nodes] == [(True, False), (False, False), (True, True)]
    await page.post("api/controls/start_node", json={"node_id": 2})
    assert len(broker.running_nodes) == 3
    # The watch goes on with the requests of the node's new server.
    broker.controls.stall_connections(False)
    async with KafkaProducer(broker.nodes[1].host + f":{broker.nodes[1].port}") as producer:
        await producer.send_many("orders", [b"book"] * 30)
    rows = (await message(page, "requests"))["view"]["rows"]
    assert 2 in {row["node_id"] for row in rows}


async def test_a_schedule_is_drawn_saved_and_played_again_in_a_test(
    broker: DevBroker, page: httpx.AsyncClient, tmp_path: Path
) -> None:
    drawn = (await page.get("api/schedule", params={"seed": 7, "seconds": 20})).json()
    expected = FaultSchedule.from_seed(7, seconds=20, topics={"orders": 3}, nodes=3)
    assert FaultSchedule.from_json(drawn) == expected
    (tmp_path / "faults.json").write_text(json.dumps(drawn))  # as the page saves it
    schedule = FaultSchedule.load(tmp_path / "faults.json")
    async with KafkaProducer(broker.bootstrap_servers, retry_backoff_ms=5) as producer:
        playback = broker.controls.play(schedule, speed=40)
        sent = [asyncio.create_task(producer.send("orders", str(n).encode())) for n in range(50)]
        await playback.wait()
        await asyncio.gather(*sent)
    assert sorted(int(record.value or b"") for record in broker.records("orders")) == list(range(50))
    assert len(broker.running_nodes) == 3
    events_seen = (await message(page, "topics"))["events"]
    assert [event["text"] for event in events_seen] == [str(fault.call) for fault in schedule.faults]


async def test_the_page_plays_and_stops_a_schedule(broker: DevBroker, page: httpx.AsyncClient) -> None:
    faults = [
        {"at": 0, "control": "stop_node", "arguments": {"node_id": 2}},
        {"at": 0, "control": "delay", "arguments": {"api": "FETCH", "seconds": 1}},
        {"at": 100, "control": "clear"},
    ]
    schedule = {"seconds": 100, "faults": faults}
    assert (await page.post("api/schedule", json={"schedule": schedule})).status_code == 200
    playing = None
    async for found in events(page, "api/live", view="faults"):
        playing = found["playback"]
        if playing["played"] == 2:
            break
    assert playing is not None
    assert not playing["is_over"]
    stopped = (await page.post("api/schedule/stop", json={})).json()
    assert stopped["is_over"]
    assert len(broker.running_nodes) == 3
    assert broker.controls.faults.delays == {}
    wrong = await page.post("api/schedule", json={"schedule": {"seconds": 1, "faults": [{"at": 0}]}})
    assert (wrong.status_code, wrong.json()["error"]) == (400, "fault 0 has no 'control'")


# access


async def test_a_page_of_others_is_answered_nothing(broker: DevBroker) -> None:
    """DNS rebinding, a form of another origin, and one that cannot send the header."""
    url = broker.console.url
    async with page_of(url) as page:
        assert (await page.get("/", headers={"host": "evil.example"})).status_code == 421
        assert (await page.get("api/live", headers={"host": "evil.example:80"})).status_code == 421
        origin = {"origin": "http://evil.example"}
        assert (await page.post("api/controls/stop_node", json={"node_id": 1}, headers=origin)).status_code == 403
    async with httpx.AsyncClient(base_url=url, trust_env=False) as form:
        answer = await form.post(
            "api/controls/stop_node", content=b'{"node_id": 1}', headers={"content-type": "text/plain"}
        )
        assert answer.status_code == 403
    assert len(broker.running_nodes) == 3


async def test_a_token_opens_the_page_once_and_stays_in_a_cookie(broker: DevBroker) -> None:
    async with Console.of_broker(broker, token=TOKEN) as console, page_of(console.url) as page:
        assert (await page.get("/")).status_code == 401
        assert (await page.get("/static/console.js")).status_code == 401
        assert (await page.get("api/about")).json()["error"].startswith("the token is missing or wrong")
        assert (await page.get("/", params={"token": "another-token-of-24-char"})).status_code == 401
        opened = await page.get("/", params={"token": TOKEN})
        assert (opened.status_code, opened.headers["location"]) == (303, "/")
        assert "HttpOnly" in opened.headers["set-cookie"]
        assert "SameSite=strict" in opened.headers["set-cookie"]
        assert (await page.get("/")).status_code == 200
        assert (await page.post("api/controls/clear", json={})).status_code == 200
    async with Console.of_broker(broker, token=TOKEN) as console, page_of(console.url) as page:
        bearer = {"authorization": f"Bearer {TOKEN}"}
        assert (await page.get("api/about", headers=bearer)).status_code == 200


async def test_a_read_only_console_shows_and_changes_nothing(broker: DevBroker) -> None:
    async with Console.of_broker(broker, read_only=True) as console, page_of(console.url) as page:
        assert (await page.get("api/about")).json()["is_read_only"] is True
        assert (await message(page, "topics"))["totals"]["topics"] == 1
        for path in ("api/records", "api/controls/clear", "api/schedule", "api/schedule/stop"):
            answer = await page.post(path, json={"topic": "orders", "value": "v"})
            assert (answer.status_code, answer.json()["error"]) == (403, "this console is read-only")
    assert broker.records("orders") == []


async def test_a_cluster_with_users_is_shown_to_one_of_them() -> None:
    async with DevBroker(2, listeners={"SASL_PLAINTEXT": "127.0.0.1:0"}, sasl_users={"ann": "secret"}) as broker:
        broker.create_topic("orders", 3)
        options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512"}
        login = {"sasl_username": "ann", "sasl_password": "secret"}
        async with (
            Console.of_cluster(broker.bootstrap_servers, client={**options, **login}, read_only=False) as console,
            page_of(console.url) as page,
        ):
            assert (await page.get("api/about")).json()["abilities"]["faults"] is False
            written = (await page.post("api/records", json={"topic": "orders", "key": "k", "value": "v"})).json()
            assert [record.value for record in broker.records("orders", written["partition"])] == [b"v"]
            found = (await page.get("api/records", params={"topic": "orders", "from": "earliest"})).json()
            assert [row["value"]["text"] for row in found["rows"]] == ["v"]
            shown = await message(page, "topic:orders")
            assert [each["end_offset"] for each in shown["view"]["partitions"]].count(1) == 1
            answer = await page.post("api/controls/clear", json={})
            assert (answer.status_code, answer.json()["error"]) == (404, "only a dev broker has faults")
        wrong = {"sasl_username": "ann", "sasl_password": "guess", "request_timeout_ms": 1_000}
        async with (
            Console.of_cluster(broker.bootstrap_servers, client={**options, **wrong}) as console,
            page_of(console.url) as page,
        ):
            problem = (await message(page, "topics"))["problem"]
            assert problem
            assert "guess" not in problem


# its life


async def test_stopping_the_broker_ends_open_streams_and_frees_the_port(broker: DevBroker) -> None:
    async with page_of(broker.console.url) as page:
        live, follow = events(page, "api/live", view="topics"), events(page, "api/follow", topic="orders")
        await anext(live)
        await anext(follow)
        stopping = asyncio.create_task(broker.stop())
        assert [each async for each in live][-1] == {}
        assert [each async for each in follow][-1] == {}
        await stopping
        with pytest.raises(httpx.ConnectError):
            await page.get("/")


async def test_a_page_that_goes_away_leaves_no_connection_to_the_cluster(broker: DevBroker) -> None:
    """A page had two readers, and the second one, for the outcomes of transactions, stayed for good."""

    def connections() -> set[object]:
        return {connection for _, connection in broker.connections()}

    async with KafkaProducer(broker.bootstrap_servers) as producer:
        for partition in range(3):
            await producer.send("orders", b"book", partition=partition)
        before = connections()
        async with Console.of_cluster(broker.bootstrap_servers) as console, page_of(console.url) as page:
            stream = events(page, "api/follow", topic="orders")
            await anext(stream)
            await producer.send("orders", b"book", partition=0)
            while not (await anext(stream))["rows"]:
                pass
            await stream.aclose()
            left = events(page, "api/follow", topic="orders")
            await anext(left)
            await left.aclose()
        assert not console.streams
        while connections() - before:  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.01)


async def test_a_port_that_is_taken_leaves_the_broker_stopped(broker: DevBroker) -> None:
    address = broker.console.url.removeprefix("http://").removesuffix("/")
    other = DevBroker(console=address)
    with pytest.raises(OSError, match="in use"):
        await other.start()
    assert not other.connections()
    await other.stop()


async def test_a_stream_of_a_topic_that_is_not_there_says_so_and_ends(page: httpx.AsyncClient) -> None:
    found = [each async for each in events(page, "api/follow", topic="nowhere")]
    assert found == [{"error": "there is no topic 'nowhere'"}]
    (wrong,) = [each async for each in events(page, "api/follow", topic="orders", filter='"')]
    assert wrong == {"error": "the filter has a quote that is not closed"}


async def test_without_a_console_no_request_is_watched() -> None:
    async with DevBroker() as broker:
        assert [node.channel.metrics.watcher for node in running_nodes_of(broker).values()] == [None]
        assert broker.controls.watchers == []
    async with DevBroker(console=True) as broker:
        await broker.console.stop()
        assert [node.channel.metrics.watcher for node in running_nodes_of(broker).values()] == [None]
        assert broker.controls.watchers == []


async def test_ten_thousand_records_a_second_hold_neither_the_broker_nor_its_readers(
    broker: DevBroker, page: httpx.AsyncClient
) -> None:
    """Three pages are open, one of them with a filter: every record is delivered at that pace, and all are counted."""
    streams = [
        events(page, "api/live", view="requests"),
        events(page, "api/follow", topic="orders"),
        events(page, "api/follow", topic="orders", filter="item:1"),
    ]
    seen = [0, 0, 0]
    has_all = asyncio.Event()
    has_begun = [asyncio.Event() for _ in streams]

    async def drain(index: int) -> None:
        async for found in streams[index]:
            has_begun[index].set()
            seen[index] += found.get("seen", 1)
            if min(seen[1:]) >= 30_000:
                has_all.set()

    readers = [asyncio.create_task(drain(index)) for index in range(3)]
    for begun in has_begun:
        await begun.wait()
    loop = asyncio.get_running_loop()
    async with KafkaProducer(broker.bootstrap_servers) as producer:
        began = loop.time()
        for tenth in range(30):
            await producer.send_many("orders", [b"item:%d" % n for n in range(1_000)])
            # The rate of the test, and no waiting for something: a tenth of a second for each thousand.
            await asyncio.sleep(max(0.0, began + 0.1 * (tenth + 1) - loop.time()))
    await has_all.wait()
    for task in readers:
        task.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    assert seen[1:] == [30_000, 30_000]
