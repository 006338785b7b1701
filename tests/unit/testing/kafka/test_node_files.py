"""The files of a node: its properties, and a log directory that is formatted like another one."""

from __future__ import annotations

from pathlib import Path

from aiokafkapy.testing.kafka.node_files import Node, copy_formatted, server_properties, tail_of, write_properties


def node_of(folder: Path, node_id: int, controller_port: int | None = None) -> Node:
    directory = folder / str(node_id)
    directory.mkdir()
    return Node(node_id, 9000 + node_id, controller_port, {}, directory)


def test_a_value_of_any_characters_is_ascii_in_a_properties_file(tmp_path: Path) -> None:
    write_properties(tmp_path / "a", {"path": "C:\\data", "name": "ü\n\U0001f600"})
    assert (tmp_path / "a").read_text("ascii") == "path=C:\\\\data\nname=\\u00fc\\u000a\\ud83d\\ude00\n"


def test_a_node_without_a_controllers_port_is_a_broker_only(tmp_path: Path) -> None:
    both = server_properties(node_of(tmp_path, 1, 9101), "1@127.0.0.1:9101", 1)
    assert both["process.roles"] == "broker,controller"
    assert str(both["listeners"]).endswith(",CONTROLLER://127.0.0.1:9101")
    broker = server_properties(node_of(tmp_path, 2), "1@127.0.0.1:9101", 1)
    assert broker["process.roles"] == "broker"
    assert broker["listeners"] == broker["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9002"


def test_a_copied_node_has_the_cluster_of_the_first_and_an_id_of_its_own(tmp_path: Path) -> None:
    first, second = node_of(tmp_path, 1), node_of(tmp_path, 2)
    first.data.mkdir()
    (first.data / "meta.properties").write_text("#today\nversion=1\ncluster.id=c\nnode.id=1\ndirectory.id=d\n")
    copy_formatted(first, second)
    lines = dict(line.split("=") for line in (second.data / "meta.properties").read_text().splitlines())
    assert (lines["cluster.id"], lines["node.id"]) == ("c", "2")
    assert lines["directory.id"] != "d"


def test_the_tail_has_the_errors_from_before_it(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_text("\n".join(["quiet", "an ERROR here", *map(str, range(5))]))
    assert tail_of(path, 3).splitlines() == ["an ERROR here", "2", "3", "4"]
    assert "No such file" in tail_of(tmp_path / "none")
