"""The commands as users run them: processes, pipes, signals and exit codes, against ``aiokafkapy broker``."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.errors import NotLeaderOrFollowerError, SaslAuthenticationFailedError
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.protocol.api import ApiKey
from tests.system.command_processes import PROGRAM, TIMEOUT, Cluster, start_broker, stop


@pytest.fixture(autouse=True)
def _no_debug_mode_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio's debug mode writes of slow callbacks to standard error, which is compared here."""
    monkeypatch.delenv("PYTHONASYNCIODEBUG", raising=False)


def read_line(stream: Any) -> bytes:
    """A line of a pipe, or a failure when none comes."""
    ready, _, _ = select.select([stream], [], [], TIMEOUT)
    assert ready, "no line came"
    line: bytes = stream.readline()
    return line


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    process, servers = start_broker("--port", "0", "--nodes", "3", "--topic", "made:4", "--topic", "recorded:1")
    try:
        yield Cluster(servers)
    finally:
        out, err = stop(process, signal.SIGINT)
    assert out == ""
    assert process.returncode == 0, err
    assert "aiokafkapy produce" in err
    assert "Traceback" not in err


def test_lines_from_stdin_are_read_back_as_json_lines(cluster: Cluster) -> None:
    done = cluster.run("produce", "lines", "--header", "from=cli", given="one\ntwo\nthree\n")
    assert done.stdout == ""
    assert "3 records to lines" in done.stderr
    assert "offsets 0 to 2" in done.stderr
    records = cluster.read("lines")
    assert [record["value"] for record in records] == ["one", "two", "three"]
    assert {record["key"] for record in records} == {None}
    assert records[0]["headers"] == [["from", "cli"]]
    assert records[0]["timestamp_ms"] > 1_500_000_000_000


def test_properties_of_a_java_or_librdkafka_program_are_taken_as_they_are(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "producer.properties"
    serializer = "org.apache.kafka.common.serialization.StringSerializer"
    file.write_text(f"value.serializer={serializer}\nmetric.reporters=\nqueue.buffering.max.ms=1\ndebug=msg\n")
    done = cluster.run("produce", "of_java", "-X", f"@{file}", given="one\n")
    assert "1 record to of_java" in done.stderr
    assert done.stderr.count("config.ignored") == 1
    assert [record["value"] for record in cluster.read("of_java")] == ["one"]


def test_bytes_that_are_not_text_go_through(cluster: Cluster) -> None:
    cluster.run("produce", "bytes", "--key-separator", r"\t", given=b"k\xff\tv\x00\xfe\n")
    (record,) = cluster.read("bytes")
    assert record["key"] == {"base64": "a/8="}
    assert record["value"] == {"base64": "dgD+"}


def test_options_that_are_not_text_are_bytes_too(cluster: Cluster) -> None:
    cluster.run("produce", "options", "-H", "a=\udcff", "--key-separator", "\udcfe", given=b"k\xfev\n")
    (record,) = cluster.read("options")
    assert (record["key"], record["value"], record["headers"]) == ("k", "v", [["a", {"base64": "/w=="}]])


def test_reading_from_a_time_before_1970_begins_at_the_start(cluster: Cluster) -> None:
    cluster.run("produce", "old", given="one\n")
    assert [one["value"] for one in cluster.read("old", "--from", "0001-01-01")] == ["one"]


def test_a_csv_has_keys_times_and_headers_and_its_bad_lines_go_to_a_file(cluster: Cluster, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("id,at,who,text\na,2013-01-01T10:00:00Z,x,NA\nbroken\nb,5,y,yes\n")
    failed = tmp_path / "failed.jsonl"
    arguments = ["--key", "id", "--value", "text", "--null", "NA", "--timestamp-field", "at"]
    arguments += ["--header-field", "who=who", "--failed", str(failed), "--json", "--partition", "1"]
    done = cluster.run("produce", "made", str(source), *arguments, code=1)
    summary = json.loads(done.stdout)
    assert (summary["sent"], summary["failed"]) == (2, 1)
    assert summary["partitions"]["1"] == {"records": 2, "first_offset": 0, "last_offset": 1}
    (bad,) = [json.loads(line) for line in failed.read_text().splitlines()]
    assert (bad["line"], bad["text"], bad["source"]) == (3, "broken", str(source))
    found = [(one["key"], one["value"], one["timestamp_ms"], one["headers"]) for one in cluster.read("made")]
    assert found == [("a", None, 1_357_034_400_000, [["who", "x"]]), ("b", "yes", 5, [["who", "y"]])]


def test_records_that_the_producer_refuses_go_to_the_file_too(cluster: Cluster, tmp_path: Path) -> None:
    failed = tmp_path / "failed.jsonl"
    options = ["--config", "max.request.size=200", "--failed", str(failed)]
    cluster.run("produce", "refused", *options, given="short\n" + "x" * 500 + "\nlast\n", code=1)
    (bad,) = [json.loads(line) for line in failed.read_text().splitlines()]
    assert bad["line"] == 2
    assert "max_request_size" in bad["reason"]
    assert [record["value"] for record in cluster.read("refused")] == ["short", "last"]


def test_the_file_for_failed_lines_is_not_an_input(cluster: Cluster, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("a\nb\n")
    result = cluster.run("produce", "events", str(lines), "--failed", str(lines), code=2)
    assert "is an input" in " ".join(result.stderr.replace("│", " ").split())  # a long path wraps it
    assert lines.read_text() == "a\nb\n"


def test_a_run_that_reaches_no_broker_leaves_the_failed_lines_of_the_one_before(tmp_path: Path) -> None:
    failed = tmp_path / "failed.jsonl"
    failed.write_text("{}\n")
    Cluster("127.0.0.1:1").run("produce", "events", "--failed", str(failed), "--timeout", "1", given="a\n", code=1)
    assert failed.read_text() == "{}\n"


def test_a_line_of_a_slow_pipe_is_sent_when_it_comes(cluster: Cluster) -> None:
    cluster.run("topics", "create", "live")
    follower = cluster.start("read", "live", "--follow")
    producer = cluster.start("produce", "live", "--json")
    assert producer.stdin is not None
    try:
        for text in (b"first", b"second"):
            producer.stdin.write(text + b"\n")
            producer.stdin.flush()
            # The pipe stays open: the record is there though the input has not ended.
            assert json.loads(read_line(follower.stdout))["value"] == text.decode()
    finally:
        out, err = stop(producer, signal.SIGINT)
        _, follower_err = stop(follower, signal.SIGINT)
    assert producer.returncode == 130, err
    assert json.loads(out)["sent"] == 2
    assert "stopped; 2 records" in err
    assert follower.returncode == 0, follower_err
    assert "Traceback" not in err + follower_err


@contextmanager
def silent_input(kind: str, folder: Path) -> Iterator[tuple[str, int]]:
    """An input in which nothing ever comes, and which does not end: its name, and the stdin to use."""
    if kind == "fifo":
        os.mkfifo(folder / "fifo")
        yield str(folder / "fifo"), subprocess.DEVNULL
        return
    reading, writing = os.pipe() if kind == "pipe" else pty.openpty()[::-1]
    try:
        yield "-", reading
    finally:
        os.close(writing)
        os.close(reading)


@pytest.mark.parametrize("kind", ["terminal", "pipe", "fifo"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_its_input_is_silent(cluster: Cluster, tmp_path: Path, kind: str, number: int) -> None:
    topic = f"silent-{kind}-{number}"
    cluster.run("topics", "create", topic)
    (tmp_path / "first").write_bytes(b"one\n")
    follower = cluster.start("read", topic, "--follow")
    with silent_input(kind, tmp_path) as (name, stdin):
        producer = subprocess.Popen(
            [*PROGRAM, "produce", topic, str(tmp_path / "first"), name],
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cluster.environment,
        )  # fmt: skip
        try:
            assert json.loads(read_line(follower.stdout))["value"] == "one"  # it has come to the other input
        finally:
            out, err = stop(producer, number)
            stop(follower)
    assert (producer.returncode, out) == (130, "")
    assert err.startswith(f"stopped; 1 record to {topic} in")


def test_a_line_without_end_is_an_error_and_does_not_fill_the_memory(cluster: Cluster) -> None:
    with Path("/dev/zero").open("rb") as zeros:
        done = subprocess.run(
            [*PROGRAM, "produce", "zeros"],
            stdin=zeros, capture_output=True, text=True, env=cluster.environment, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "error: stdin:1: a line of over 64 MiB: is this text?\n")


def test_signals_end_a_command_whose_output_nobody_reads(cluster: Cluster) -> None:
    cluster.run("produce", "unread", given=("x" * 500_000 + "\n") * 8)
    reading, writing = os.pipe()
    try:
        reader = subprocess.Popen(
            [*PROGRAM, "read", "unread", "--follow"],
            stdout=writing, stderr=subprocess.PIPE, env=cluster.environment | {"PYTHONUNBUFFERED": ""},
        )  # fmt: skip
        ready, _, _ = select.select([reading], [], [], TIMEOUT)
        assert ready  # its write waits for the rest to be read
        deadline = time.monotonic() + TIMEOUT
        while reader.poll() is None and time.monotonic() < deadline:
            reader.send_signal(signal.SIGINT)
            time.sleep(0.2)
        reader.kill()
        _, err = reader.communicate(timeout=TIMEOUT)
    finally:
        os.close(reading)
        os.close(writing)
    assert (reader.returncode, err) == (130, b"")


def test_reading_begins_and_ends_where_it_is_told(cluster: Cluster) -> None:
    lines = "".join(json.dumps({"n": number, "at": 1_000_000_000_000 + number}) + "\n" for number in range(10))
    cluster.run("produce", "places", "--format", "jsonl", "--value", "n", "--timestamp-field", "at", given=lines)

    def values(*arguments: str) -> list[int]:
        return [int(record["value"]) for record in cluster.read("places", *arguments)]

    assert values() == list(range(10))
    assert values("--from", "7") == [7, 8, 9]
    assert values("--from", "-2") == [8, 9]
    assert values("--from", "@1000000000004", "--to", "@1000000000006") == [4, 5]
    assert values("--from", "2", "--to", "4") == [2, 3]
    assert values("--max", "3") == [0, 1, 2]
    assert values("--from", "latest") == []
    assert values("--partition", "0", "--committed") == list(range(10))


def test_records_are_read_as_utf8_whatever_the_locale(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.run("produce", "scripts", given="gr\u00fc\u00dfe \u4e2d\n")
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    assert [one["value"] for one in cluster.read("scripts")] == ["gr\u00fc\u00dfe \u4e2d"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_as_one_that_is_empty(cluster: Cluster, closed: str) -> None:
    command = " ".join([*PROGRAM, "produce", "streams", "--json", closed])
    done = subprocess.run(
        command, shell=True, input=b"one\n", capture_output=True, env=cluster.environment, timeout=TIMEOUT, check=False
    )
    assert (done.returncode, b"Assertion" in done.stderr) == (0, False), done


def test_a_reader_that_goes_away_is_not_an_error(cluster: Cluster) -> None:
    cluster.run("produce", "many", given="".join(f"{number}\n" for number in range(20_000)))
    reader = cluster.start("read", "many")
    assert reader.stdout is not None
    assert reader.stderr is not None
    read_line(reader.stdout)
    reader.stdout.close()
    assert reader.wait(TIMEOUT) == 0
    assert reader.stderr.read() == b""
    reader.stderr.close()
    assert reader.stdin is not None
    reader.stdin.close()


def test_topics_are_made_shown_grown_and_deleted(cluster: Cluster) -> None:
    cluster.run("topics", "create", "tt", "--partitions", "2", "--topic-config", "retention.ms=1000")
    again = cluster.run("topics", "create", "tt", code=1)
    assert again.stderr.startswith("error: topic tt exists already")
    cluster.run("topics", "create", "tt", "--if-not-exists")
    cluster.run("topics", "add-partitions", "tt", "--total", "3")
    fewer = cluster.run("topics", "add-partitions", "tt", "--total", "2", code=1)
    assert "only get more partitions" in fewer.stderr
    cluster.run("produce", "tt", "--partition", "2", given="x\n")
    described = json.loads(cluster.run("topics", "describe", "tt", "--json").stdout)
    assert described["configs"] == {"retention.ms": "1000"}
    assert [(one["first_offset"], one["end_offset"]) for one in described["partitions"]] == [(0, 0), (0, 0), (0, 1)]
    assert "retention.ms=1000" in cluster.run("topics", "describe", "tt").stdout
    assert "tt" in [one["topic"] for one in json.loads(cluster.run("topics", "list", "--json").stdout)]
    header, *rows = [line.split() for line in cluster.run("topics", "list").stdout.splitlines()]
    assert header == ["topic", "partitions", "replicas"]
    assert ["tt", "3", "3"] in rows
    cluster.run("topics", "delete", "tt", given="n\n", code=1)
    cluster.run("topics", "delete", "tt", "--yes")
    assert "no topic tt" in cluster.run("topics", "describe", "tt", code=1).stderr
    assert "no topic tt" in cluster.run("read", "tt", code=1).stderr


def test_options_of_a_topic_are_shown_changed_and_taken_back(cluster: Cluster) -> None:
    cluster.run("topics", "create", "configured")
    changed = cluster.run("topics", "config", "configured", "--set", "retention.ms=1000", "--set", "segment.ms=5")
    assert changed.stdout == "changed 2 options of topic configured\n"
    assert cluster.run("topics", "config", "configured").stdout == "retention.ms=1000\nsegment.ms=5\n"
    cluster.run("topics", "config", "configured", "--delete", "segment.ms")
    (shown,) = json.loads(cluster.run("topics", "config", "configured", "--json").stdout)
    assert (shown["name"], shown["value"], shown["source"]) == ("retention.ms", "1000", "DYNAMIC_TOPIC_CONFIG")
    every = cluster.run("topics", "config", "configured", "--all").stdout
    assert "segment.ms=604800000  (DEFAULT_CONFIG)" in every
    assert "--all" in cluster.run("topics", "config", "configured", "--set", "nonsense=1", code=1).stderr
    assert "no topic none" in cluster.run("topics", "config", "none", "--set", "retention.ms=1", code=1).stderr


def test_records_of_a_topic_are_deleted_and_the_topic_stays(cluster: Cluster) -> None:
    cluster.run("topics", "create", "log", "--partitions", "2")
    cluster.run("produce", "log", "--partition", "1", given="a\nb\nc\n")
    cluster.run("topics", "delete-records", "log", given="n\n", code=1)
    cluster.run("topics", "delete-records", "log", "--partition", "1", "--before", "2", "--yes")
    assert [each["value"] for each in cluster.read("log")] == ["c"]
    left = cluster.run("topics", "delete-records", "log", "--yes").stdout
    assert left == "log-0 begins at offset 0\nlog-1 begins at offset 3\n"
    past = cluster.run("topics", "delete-records", "log", "-p", "1", "--before", "9", "--yes", code=1)
    assert "log-1" in past.stderr
    assert "no topic none" in cluster.run("topics", "delete-records", "none", "--yes", code=1).stderr


def test_a_cluster_is_described(cluster: Cluster) -> None:
    found = json.loads(cluster.run("cluster", "--json").stdout)
    addresses = [f"{node['host']}:{node['port']}" for node in found["nodes"]]
    assert ",".join(addresses) == cluster.servers
    header, *lines = cluster.run("cluster").stdout.splitlines()
    assert found["cluster_id"] in header
    assert [line.split()[1] for line in lines] == addresses
    assert sum("controller" in line for line in lines) == 1


async def test_a_topic_is_described_although_one_leader_does_not_tell_its_offsets() -> None:
    async with DevBroker(nodes=3) as broker:
        broker.create_topic("half", partitions=3)
        broker.controls.fail_next(ApiKey.LIST_OFFSETS, NotLeaderOrFollowerError, "half", 1, times=None)
        cluster = Cluster(broker.bootstrap_servers)
        arguments = ("topics", "describe", "half", "--timeout", "1")
        shown = await asyncio.to_thread(cluster.run, *arguments)
        as_json = await asyncio.to_thread(cluster.run, *arguments, "--json")
    assert [line.split()[-1] for line in shown.stdout.splitlines()[-3:]] == ["0", "?", "0"]
    assert "warning: the offset of half-1 was not found" in shown.stderr
    assert [one["end_offset"] for one in json.loads(as_json.stdout)["partitions"]] == [0, None, 0]


def test_perf_measures_and_says_so_as_json(cluster: Cluster) -> None:
    found = json.loads(cluster.run("perf", "speed", "-n", "20000", "-s", "50", "--json").stdout)
    assert (found["records"], found["failed"], found["timed_records"]) == (20_000, 0, 20_000)
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["max_latency_ms"]
    said = cluster.run("perf", "speed", "-n", "500", "--tasks", "20", "--throughput", "5000").stdout
    assert said.startswith("500 records sent, ")
    assert "ms 99th" in said
    described = json.loads(cluster.run("topics", "describe", "speed", "--json").stdout)
    assert sum(one["end_offset"] for one in described["partitions"]) == 20_500


@pytest.mark.parametrize("command", [["produce", "t"], ["read", "t"], ["topics", "list"], ["perf", "t", "-n", "1"]])
def test_without_a_broker_the_error_is_one_line_with_the_address(command: list[str]) -> None:
    done = Cluster("127.0.0.1:1").run(*command, "--timeout", "0.5", given="x\n", code=1)
    assert "127.0.0.1:1" in done.stderr
    assert done.stderr.count("error: ") == 1


def test_a_file_that_is_not_there_is_one_line(cluster: Cluster) -> None:
    assert cluster.run("produce", "t", "nothing.csv", code=1).stderr == (
        "error: nothing.csv: No such file or directory\n"
    )
    wrong = cluster.run("produce", "t", "--format", "csv", "--key", "b", given="a,c\n", code=1)
    assert "has no column 'b'; it has a, c" in wrong.stderr


def test_a_broker_keeps_its_records_in_a_data_dir_also_through_kill_9(tmp_path: Path) -> None:
    process, servers = start_broker("--port", "0", "--data-dir", str(tmp_path / "data"))
    try:
        Cluster(servers).run("produce", "kept", given="".join(f"{number}\n" for number in range(100)))
    finally:
        process.kill()
        process.communicate()
    process, servers = start_broker("--port", "0", "--data-dir", str(tmp_path / "data"))
    try:
        assert [int(record["value"]) for record in Cluster(servers).read("kept")] == list(range(100))
    finally:
        stop(process)
    assert process.returncode == 0


def test_the_error_for_a_taken_port_has_its_remedy(cluster: Cluster) -> None:
    port = cluster.servers.split(",")[0].rpartition(":")[2]
    done = cluster.run("broker", "--port", port, code=1)
    assert done.stderr.startswith(f"error: port {port} of 127.0.0.1 is in use: give another --port")


def test_a_broker_with_tls_and_users_prints_the_options_of_clients() -> None:
    process, servers = start_broker("--port", "0", "--tls", "--user", "alice=alice-secret", "--super-user", "alice")
    needed: dict[str, str] = {}
    try:
        assert process.stderr is not None
        for line in process.stderr:
            name, _, value = line.decode().strip().partition("=")
            needed[name] = value
            if name == "sasl.password":
                break
        assert needed["security.protocol"] == "SASL_SSL"
        assert needed["sasl.username"] == "alice"
        assert needed["sasl.password"] == "PASSWORD"
        needed["sasl.password"] = "alice-secret"
        properties = {"bootstrap.servers": servers, **{name: value for name, value in needed.items() if value}}
        asyncio.run(send_and_be_refused(properties))
    finally:
        _, err = stop(process)
    assert process.returncode == 0, err
    assert "alice-secret" not in err


async def send_and_be_refused(properties: dict[str, str]) -> None:
    """With the password a record arrives; with another one the client is refused."""
    async with KafkaProducer(config=ProducerConfig.from_properties(properties)) as producer:
        assert (await producer.send("t", b"hello")).offset == 0
    with pytest.raises(SaslAuthenticationFailedError):
        await KafkaProducer(config=ProducerConfig.from_properties({**properties, "sasl.password": "wrong"})).start()


def test_a_broker_listens_where_it_is_told() -> None:
    process, servers = start_broker("--listener", "PLAINTEXT://127.0.0.1:0", "-l", "INSIDE=PLAINTEXT://127.0.0.1:0")
    try:
        assert process.stderr is not None
        printed = [process.stderr.readline().decode().strip().partition(": ") for _ in range(2)]
        assert [name for name, _, _ in printed] == ["PLAINTEXT", "INSIDE"]
        assert printed[0][2] == servers
        inside = printed[1][2]
        assert inside != servers
        Cluster(inside).run("produce", "t", given="hello\n")
        assert [record["value"] for record in Cluster(servers).read("t")] == ["hello"]
    finally:
        stop(process)
    assert process.returncode == 0
    refused = Cluster("").run("broker", "--listener", "PLAINTEXT://127.0.0.1:0", "--port", "1", code=2)
    assert refused.stderr == "error: --host and --port have no effect with --listener: write them in it\n"
    refused = Cluster("").run("broker", "--listener", "INSIDE=127.0.0.1:0", code=2)
    assert "listener 'INSIDE': which protocol?" in refused.stderr


def test_a_broker_is_the_release_that_it_is_told_to_be_and_says_so() -> None:
    process, servers = start_broker("--port", "0", "--emulate", "2.8.2")
    try:
        assert process.stderr is not None
        assert " as Kafka 2.8, records in memory" in process.stderr.readline().decode()
        Cluster(servers).run("produce", "t", given="hello\n")
        assert [record["value"] for record in Cluster(servers).read("t")] == ["hello"]
    finally:
        stop(process)
    assert process.returncode == 0
    refused = Cluster("").run("broker", "--emulate", "5.0", code=2)
    assert refused.stderr.startswith("error: version='5.0' cannot be emulated; write one of 0.11, 1.0, ")
    assert "--emulate" in Cluster("").run("broker", "--help").stdout


def test_a_broker_prints_the_options_of_clients_for_each_listener() -> None:
    inside = "INSIDE=SASL_SSL://127.0.0.1:0"
    process, servers = start_broker(
        *("-l", "PLAINTEXT://127.0.0.1:0", "-l", inside, "--tls", "--user", "al ice=alice-secret"),
        *("-X", "sasl.enabled.mechanisms=PLAIN", "-X", "ssl.client.auth=required"),
    )
    _, said = stop(process)
    lines = [line.strip() for line in said.splitlines()]
    assert f"PLAINTEXT: {servers}" in lines
    described = lines[next(place for place, line in enumerate(lines) if line.startswith("INSIDE: ")) :]
    needed = [name for line in described if (name := line.partition("=")[0]) != line]
    assert needed[:3] == ["security.protocol", "ssl.truststore.location", "ssl.keystore.location"]
    assert {"sasl.mechanism=PLAIN", "sasl.username=al ice", "sasl.password=PASSWORD"} <= set(described)
    assert f"aiokafkapy read greetings -b {servers}" in lines, "of the first listener"
    assert "alice-secret" not in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-l", "SSL://127.0.0.1:0"], "listener SSL speaks TLS and has no certificate: give --tls for a throw-away"),
        (["-l", "PLAINTEXT://127.0.0.1:0", "--tls"], "--tls: no --listener speaks TLS; write SSL:// or SASL_SSL://"),
        (["-l", "PLAINTEXT://127.0.0.1:0", "--user", "a=b"], "--user: no --listener has SASL; write SASL_SSL://"),
    ],
)
def test_a_broker_whose_listeners_do_not_fit_its_options_does_not_start(options: list[str], words: str) -> None:
    refused = Cluster("").run("broker", *options, code=2)
    assert refused.stderr.startswith(f"error: {words}")


def test_a_broker_that_nobody_can_log_in_to_says_so() -> None:
    process, _ = start_broker("-l", "SASL_PLAINTEXT://127.0.0.1:0")
    _, said = stop(process)
    assert "Without --user nobody has a password here" in said
    assert "sasl.username=NAME" in said


def test_nodes_beyond_the_last_port_are_refused() -> None:
    """The second one had a free port, which no client would find."""
    done = Cluster("").run("broker", "--port", "65535", "--nodes", "2", code=2)
    assert "port=65535: the last of 2 nodes would have a port over 65535" in done.stderr


def test_an_address_that_cannot_be_listened_on_is_named_with_its_port() -> None:
    done = Cluster("").run("broker", "--host", "nosuch.invalid", "--port", "9555", code=1)
    assert done.stderr.startswith("error: cannot listen on nosuch.invalid:9555: ")


@pytest.fixture
def silent_address() -> Iterator[str]:
    """Takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("command", [["produce", "t"], ["perf", "t", "-n", "1"], ["read", "t"], ["topics", "list"]])
def test_ctrl_c_while_a_broker_is_looked_for_ends_at_once(command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        process = Cluster(address).start(*command, "--timeout", "50")
        connection, _ = server.accept()  # from now on it waits for the broker
        with connection:
            begun = time.monotonic()
            out, err = stop(process, signal.SIGINT)
    assert time.monotonic() - begun < 10
    assert (process.returncode, out, err) == (130, "", "stopped\n")


@pytest.mark.parametrize("command", [["produce", "t"], ["perf", "t", "-n", "1"], ["read", "t"], ["topics", "list"]])
def test_the_timeout_is_kept_with_a_broker_that_does_not_answer(command: list[str], silent_address: str) -> None:
    begun = time.monotonic()
    done = Cluster(silent_address).run(*command, "--timeout", "0.5", given="", code=1)
    assert time.monotonic() - begun < 15
    assert "0.5 s" in done.stderr


def test_following_ends_when_its_reader_has_gone_though_no_record_comes(cluster: Cluster) -> None:
    cluster.run("produce", "gone", given="one\n")
    follower = cluster.start("read", "gone", "--follow")
    assert follower.stdout is not None
    read_line(follower.stdout)
    follower.stdout.close()
    assert follower.wait(TIMEOUT) == 0
    assert follower.stdin is not None
    assert follower.stderr is not None
    assert follower.stderr.read() == b""
    follower.stdin.close()
    follower.stderr.close()


def test_one_signal_ends_reading_though_nobody_reads_its_output(cluster: Cluster) -> None:
    cluster.run("produce", "stuck", given="a line of a hundred bytes or so\n" * 5_000)
    reading = cluster.start("read", "stuck")
    assert reading.stdout is not None
    read_line(reading.stdout)  # and little more: the pipe is full in a moment
    reading.send_signal(signal.SIGTERM)
    assert reading.wait(TIMEOUT) == 130
    _, err = reading.communicate()
    assert b"Traceback" not in err


def test_reading_from_beyond_the_end_says_where_the_end_is(cluster: Cluster) -> None:
    cluster.run("produce", "beyond", given="one\n")
    done = cluster.run("read", "beyond", "--from", "100")
    assert (done.stdout, done.stderr) == ("", "beyond-0 ends at offset 1, before --from 100\n")


def test_help_names_the_extra_with_its_brackets() -> None:
    for command in ("demo", "pipeline"):
        assert "'aiokafkapy[demo]'" in Cluster("").run(command, "--help").stdout


def test_the_version_tells_compiled_from_interpreted() -> None:
    plain = subprocess.run(
        [*PROGRAM, "--version"], capture_output=True, text=True, env=os.environ | {"AIOKAFKAPY_INTERPRETED": "1"}
    )
    assert plain.stdout.endswith(" (interpreted)\n")


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_its_extra_the_program_names_the_extra(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from aiokafkapy.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"error: the command line needs {missing}: pip install 'aiokafkapy[cli]'\n"


@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [
        ("demo --no-pipeline", "aiohttp", "demo"),
        ("pipeline", "pandas", "demo"),
        ("broker --port 0 --console", "uvicorn", "console"),
        ("broker --port 0 --console --schema-registry http://127.0.0.1:1", "httpx", "schema-registry"),
        ("console --schema-registry http://127.0.0.1:1", "httpx", "schema-registry"),
    ],
)
def test_without_the_extra_of_a_command_it_names_the_extra(command: str, missing: str, extra: str) -> None:
    words = ["aiokafkapy", *command.split()]
    code = f"import sys; sys.modules[{missing!r}] = None; sys.argv = {words}; from aiokafkapy.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT)
    last = done.stderr.splitlines()[-1]
    assert (last.startswith("error: "), last.endswith(f": pip install 'aiokafkapy[{extra}]'")) == (True, True), done
    assert "Traceback" not in done.stderr
    assert done.returncode in (1, 2)


def test_an_option_that_does_not_exist_is_a_wrong_command(cluster: Cluster) -> None:
    done = cluster.run("produce", "t", "--config", "linger.mss=5", given="", code=2)
    assert "did you mean linger_ms?" in done.stderr
    done = cluster.run("broker", "--config", "num.partition=5", "--port", "0", code=2)
    assert "num_partitions" in done.stderr


def get_json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
        return json.load(answer)


def test_a_broker_with_a_console_says_where_it_is() -> None:
    process, servers = start_broker("--port", "0", "--console", "--console-address", "127.0.0.1:0")
    try:
        assert process.stderr is not None
        line = b""
        while not line.startswith(b"Console: "):
            line = process.stderr.readline()
            assert line, "the broker has ended"
        url = line.decode().split()[1]
        assert get_json(f"{url}api/about")["abilities"] == {"faults": True, "requests": True, "clients": True}
        port = url.rstrip("/").rpartition(":")[2]
        taken = subprocess.run(
            [*PROGRAM, "broker", "--port", "0", "--console", "--console-address", f"127.0.0.1:{port}"],
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert taken.returncode == 1
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use; give another --console-address" in (
            taken.stderr.decode()
        )
    finally:
        stop(process)
    assert process.returncode == 0
    assert servers


def test_a_console_of_a_cluster_is_read_only_and_shows_its_topics(cluster: Cluster) -> None:
    process = cluster.start("console", "--address", "127.0.0.1:0")
    try:
        url = read_line(process.stdout).decode().strip()
        about = get_json(f"{url}api/about")
        assert (about["is_read_only"], about["abilities"]["faults"]) == (True, False)
        with urllib.request.urlopen(f"{url}api/live?view=topics", timeout=TIMEOUT) as stream:
            message = json.loads(stream.readline().removeprefix(b"data: "))
        assert "made" in [row["name"] for row in message["view"]["rows"]]
        assert len(message["cluster"]["nodes"]) == 3
    finally:
        _, err = stop(process)
    assert process.returncode == 0
    assert "Read-only" in err


def test_a_recorded_conversation_is_replayed_to_the_same_command(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "bug.jsonl"
    process = cluster.start("record", str(file), "--port", "0", "--hash-payloads")
    try:
        through = Cluster(read_line(process.stdout).decode().strip())
        through.run("produce", "recorded", "--partition", "0", given="a secret\n")
    finally:
        _, err = stop(process)
    assert process.returncode == 0, err
    assert "requests in" in err
    assert b"a secret" not in file.read_bytes()
    replaying = cluster.start("replay", str(file), "--port", "0", "--speed", "0")
    try:
        replayed = Cluster(read_line(replaying.stdout).decode().strip())
        replayed.run("produce", "recorded", "--partition", "0", given="as large\n")
    finally:
        _, err = stop(replaying)
    assert replaying.returncode == 0, err
    assert "Payloads are digests" in err
    replaying = cluster.start("replay", str(file), "--port", "0", "--speed", "0")
    try:
        replayed = Cluster(read_line(replaying.stdout).decode().strip())
        replayed.run("produce", "other", "-X", "max.block.ms=500", given="x\n", code=1)
    finally:
        _, err = stop(replaying)
    assert replaying.returncode == 1
    assert "not as recorded: " in err
    assert "expected METADATA" in err
    assert "did not come: PRODUCE" in err


def test_a_recording_that_is_damaged_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bug.jsonl"
    file.write_text('{"recording": 1, "bootstrap_servers": ["a:1"], "payloads": "kept"}\n{"at": 0}\n')
    done = subprocess.run([*PROGRAM, "replay", str(file)], capture_output=True, timeout=TIMEOUT, check=False, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        f"error: {file}, line 2: 'event' is missing: expected one of connected, request, answer, closed, ended\n"
    )
