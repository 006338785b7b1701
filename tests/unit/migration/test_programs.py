"""The lines found in programs that move over, and those left alone."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from aiokafkapy.migration import Change, changes_by_file, changes_in


def found(source: str) -> dict[str, str]:
    return {change.found: change.advice for change in changes_in(textwrap.dedent(source))}


def lines(source: str) -> list[tuple[int, str]]:
    return [(change.line, change.found) for change in changes_in(textwrap.dedent(source))]


def test_a_program_of_aiokafka_is_listed_by_its_lines() -> None:
    program = """\
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        class Service:
            def __init__(self):
                self.producer = AIOKafkaProducer(
                    bootstrap_servers="h:1",
                    max_batch_size=1,
                    acks="all",
                    api_version="auto",
                )

            async def run(self):
                await self.producer.start()
                await self.producer.send_and_wait("t", b"v")
                await self.producer.flush()
                await self.producer.stop()
        """
    assert lines(program) == [
        (1, "from aiokafka import AIOKafkaProducer"),
        (5, "AIOKafkaProducer(…)"),
        (7, "option max_batch_size"),
        (9, "option api_version"),
        (14, ".send_and_wait(…)"),
        (16, ".stop(…)"),
    ]
    assert found(program)["option max_batch_size"] == "write batch_size"
    assert found(program)["option api_version"].startswith("leave it out")


def test_a_program_of_confluent_kafka_is_read_with_its_dictionary_and_arguments() -> None:
    changes = found("""
        import confluent_kafka as ck

        conf = {"bootstrap.servers": "h:1", "queue.buffering.max.ms": 5, "ssl.ca.location": "ca.pem", "nonsense.x": 1}
        p = ck.Producer({**conf, "queuing.strategy": "lifo", "statistics.interval.ms": 5})
        p.produce("t", b"v", on_delivery=print)
        p.poll(0)
        p.flush()
        """)
    assert changes["option queuing.strategy"] == "leave it out: records of a partition are first in, first out"
    assert "there is no such option" in changes["option nonsense.x"]
    # from_properties translates these, or ignores them.
    for name in ("queue.buffering.max.ms", "ssl.ca.location", "bootstrap.servers", "statistics.interval.ms"):
        assert f"option {name}" not in changes
    assert "add_done_callback" in changes["argument on_delivery"]
    assert "CRC-32" in changes["Producer(…)"]
    assert {".produce(…)", ".poll(…)", ".flush(…)"} <= set(changes)


def test_a_producer_is_known_however_it_got_its_name() -> None:
    for program in (
        "from kafka import KafkaProducer\np = KafkaProducer()\np.send('t')",
        "import kafka\np: kafka.KafkaProducer = make()\np.send('t')",
        "from kafka import KafkaProducer\ndef f(p: 'KafkaProducer | None'): p.send('t')",
        "from kafka import KafkaProducer as K\nwith K() as p:\n    p.send('t')",
        "import aiokafka as a\nasync def f():\n    async with a.AIOKafkaProducer() as p:\n        await p.send('t')",
        "from kafka import KafkaProducer\nif (p := KafkaProducer()): p.send('t')",
        "import typing, kafka\ndef f(p: typing.Optional[kafka.KafkaProducer]): p.send('t')",
    ):
        assert ".send(…)" in found(program), program


def test_errors_are_named_by_ours_or_the_nearest() -> None:
    changes = found("from aiokafka.errors import KafkaError, NotLeaderForPartitionError, Cancelled")
    assert "from aiokafkapy.errors import KafkaError" in changes["from aiokafka.errors import KafkaError"]
    near = changes["from aiokafka.errors import NotLeaderForPartitionError"]
    assert "aiokafkapy.errors: NotLeaderOrFollowerError?" in near


def test_spark_is_found_with_options_that_are_refused_and_its_jar() -> None:
    program = """\
        shared = {"kafka.bootstrap.servers": "h:1", "kafka.auto.offset.reset": "earliest"}
        spark = SparkSession.builder.config("spark.jars.packages", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0")
        df = (
            spark.readStream
            .format("kafka")
            .options(**shared)
            .option("kafka.security.providers", "x")
            .option("subscribe", "t")
        )
        spark.read.format("parquet").option("kafka", 1)
        """
    assert lines(program) == [
        (1, "option kafka.auto.offset.reset"),
        (2, "spark-sql-kafka-0-10"),
        (5, 'format("kafka")'),
        (7, "option kafka.security.providers"),
    ]
    assert "startingOffsets" in found(program)["option kafka.auto.offset.reset"]


def test_an_object_that_is_not_a_producer_is_left_alone() -> None:
    assert (
        lines("""
        from aiokafka import AIOKafkaConsumer
        from aiokafkapy import KafkaProducer
        from .kafka import KafkaProducer as Own
        consumer = AIOKafkaConsumer("t")
        socket.send(b"x"); thread.stop(); Own(max_batch_size=1)
        "{}".format("kafka2")
        """)
        == []
    )


def test_a_file_that_is_not_python_is_reported() -> None:
    ((line, what),) = lines("x = 1\nprint 'two'\n")
    assert (line, what) == (2, "not Python that this version can read")
    assert lines("a\0b")[0][1] == "not Python that this version can read"


@pytest.mark.parametrize("source", ["-" * 100_000 + "1", "a" + ".b" * 5_000 + "()"])
def test_expressions_that_are_too_deep_are_a_finding(source: str) -> None:
    limit = sys.getrecursionlimit()
    # Some libraries raise the limit for their whole process when they are imported, jsonata and celpy among them.
    sys.setrecursionlimit(1_000)
    try:
        ((line, what),) = lines(source)
    finally:
        sys.setrecursionlimit(limit)
    assert (line, what) == (1, "not Python that this version can read")


def changes_below(paths: list[Path]) -> list[Change]:
    return [change for found in changes_by_file(paths) for change in found]


def test_an_unreadable_file_keeps_no_other_from_being_looked_at(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text("from kafka import KafkaProducer\n")
    (tmp_path / ".#a.py").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "pipe.py")
    assert [Path(change.path).name for change in changes_below([tmp_path])] == ["b.py"]
    (change,) = changes_below([tmp_path / "pipe.py"])
    assert (change.found, change.advice) == ("it cannot be read", "look at it by hand (it is not a regular file)")
    gone = tmp_path / "gone.py"
    assert [change.found for change in changes_below([gone, tmp_path / "b.py"])] == [
        "it cannot be read",
        "from kafka import KafkaProducer",
    ]


def test_folders_are_walked_but_for_environments_and_caches(tmp_path: Path) -> None:
    for name in ("a.py", "sub/b.py", "env/c.py", ".git/d.py", "__pycache__/e.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("from kafka import KafkaProducer\n")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    paths = [Path(change.path).relative_to(tmp_path).as_posix() for change in changes_below([tmp_path])]
    assert paths == ["a.py", "sub/b.py"]
    assert [change.line for change in changes_below([tmp_path / "notes.txt"])] == [1]


@pytest.mark.parametrize("text", ['"the broker is {}"', 'f"{name} is {{}}"'])
def test_the_format_of_a_text_is_not_sparks(text: str) -> None:
    assert found(f'name = "x"\nprint({text}.format("kafka"))') == {}


def test_a_dictionary_that_takes_in_one_of_its_own_name_has_the_keys_of_both() -> None:
    """The file was reported as not being Python, and its other lines were lost."""
    assert lines("""\
        from confluent_kafka import Producer
        conf = {"linger.ms": 1, "nonsense.x": 5}
        if True:
            conf = {**conf, "nonsense.y": "x"}
        conf = {**conf, **{"nonsense.z": 1}}
        p = Producer(conf)
        """) == [
        (1, "from confluent_kafka import Producer"),
        (2, "option nonsense.x"),
        (4, "option nonsense.y"),
        (5, "option nonsense.z"),
        (6, "Producer(…)"),
    ]


def test_dictionaries_that_take_in_each_other_end() -> None:
    assert (3, "option nonsense.x") in lines("""\
        from confluent_kafka import Producer
        a = {**b}
        b = {**a, "nonsense.x": 1}
        p = Producer(a)
        """)
