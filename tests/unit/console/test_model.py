"""The shown data, as JSON's types."""

from __future__ import annotations

import json

from aiokafkapy.console.decoding import FORMS, Shown
from aiokafkapy.console.model import Cluster, Lag, Node, Partition, as_json, fields_as_json
from aiokafkapy.console.source import Abilities


def test_data_of_any_depth_becomes_json_values() -> None:
    partition = Partition(0, None, 3, (1, 2), [1], 0, 7, lags=[Lag("billing", 5, 2)])
    found = json.loads(json.dumps(as_json({"partitions": [partition], 7: Abilities(faults=True)})))
    assert found["7"] == {"faults": True, "requests": False, "clients": False}
    (shown,) = found["partitions"]
    assert (shown["leader"], shown["replicas"], shown["in_sync"]) == (None, [1, 2], [1])
    assert shown["lags"] == [{"group_id": "billing", "committed": 5, "lag": 2}]


def test_each_field_is_there_by_its_name() -> None:
    cluster = Cluster("id", "cluster", [Node(1, "h:1")], None)
    assert as_json(cluster) == {
        "cluster_id": "id",
        "kind": "cluster",
        "nodes": [{"node_id": 1, "address": "h:1", "is_running": True, "is_stalled": False}],
        "controller_id": None,
    }
    assert fields_as_json(Shown("text", "a", 1))["is_cut"] is False
    assert as_json(FORMS) == list(FORMS)
