"""aiokafkapy.testing.schema_registry.store: ids, versions, levels and modes, with Confluent's codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy.common import JsonObject, JsonValue
from aiokafkapy.testing.schema_registry.errors import RegistryRefusal
from aiokafkapy.testing.schema_registry.store import SchemaStore


def avro(*names: str, default: bool = False) -> dict[str, Any]:
    more = {"default": 0} if default else {}
    fields = [{"name": name, "type": "int", **more} for name in names]
    return {"schema": json.dumps({"type": "record", "name": "R", "fields": fields})}


@pytest.fixture
def store() -> SchemaStore:
    return SchemaStore(lambda: 0.0)


def register(store: SchemaStore, subject: str, body: dict[str, Any]) -> tuple[int, int]:
    version = store.register(subject, store.parse(body))
    return version.id, version.number


def test_a_schema_has_one_id_under_all_subjects(store: SchemaStore) -> None:
    assert register(store, "a", avro("x")) == (1, 1)
    assert register(store, "a", avro("x")) == (1, 1)
    assert register(store, "b", avro("x")) == (1, 1)
    assert register(store, "b", avro()) == (2, 2)
    assert [one.subject for one in store.uses_of_id(1)] == ["a", "b"]


@pytest.mark.parametrize(
    ("level", "is_taken"),
    [
        # (a field more without default, a field less without default, a field more with one, after: all three)
        ("NONE", (True, True, True)),
        ("BACKWARD", (False, True, True)),
        ("FORWARD", (True, False, True)),
        ("FULL", (False, False, True)),
    ],
)
def test_a_level_says_which_changes_are_taken(store: SchemaStore, level: str, is_taken: tuple[bool, ...]) -> None:
    changes = (avro("x", "y"), avro(), avro("x", "y", default=True))
    for change, wanted in zip(changes, is_taken, strict=True):
        store = SchemaStore(lambda: 0.0)
        store.set_level(level)
        register(store, "a", avro("x") if change is not changes[2] else avro("x", default=True))
        if wanted:
            assert register(store, "a", change) == (2, 2)
        else:
            with pytest.raises(RegistryRefusal) as caught:
                register(store, "a", change)
            assert (caught.value.code, caught.value.status) == (409, 409)


def test_a_transitive_level_looks_at_all_versions(store: SchemaStore) -> None:
    for level, is_taken in (("BACKWARD", True), ("BACKWARD_TRANSITIVE", False)):
        store.set_level("NONE")
        register(store, level, avro("x"))
        register(store, level, avro("x", "y"))
        store.set_level(level)
        against = store.compared(level, level)
        problems = store.problems(store.parse(avro("y")), against, level)
        assert (not problems) is is_taken, problems


def test_versions_are_deleted_twice_and_never_numbered_again(store: SchemaStore) -> None:
    register(store, "a", avro("x"))
    for number, code in (("1", 40407), ("7", 40402), ("zero", 42202)):
        with pytest.raises(RegistryRefusal) as caught:
            store.delete_version("a", number, permanent=True)
        assert caught.value.code == code
    assert store.delete_version("a", "latest") == 1
    assert store.subjects() == []
    assert store.subjects(deleted=True) == ["a"]
    with pytest.raises(RegistryRefusal, match="soft deleted"):
        store.delete_subject("a")
    assert store.delete_subject("a", permanent=True) == [1]
    assert register(store, "a", avro("x")) == (1, 2)


def test_a_referenced_schema_is_not_deleted(store: SchemaStore) -> None:
    register(store, "base", avro("x"))
    uses = {
        "schema": '{"type":"record","name":"S","fields":[{"name":"r","type":"R"}]}',
        "references": [{"name": "R", "subject": "base", "version": 1}],
    }
    found = register(store, "user", uses)[0]
    assert store.referenced_by(store.version("base", "1")) == [found]
    with pytest.raises(RegistryRefusal) as caught:
        store.delete_subject("base")
    assert (caught.value.code, caught.value.status) == (42206, 422)


def test_an_unreadable_input_is_refused(store: SchemaStore) -> None:
    bodies: tuple[JsonValue, ...] = (
        {},
        {"schema": "{"},
        {"schema": '{"type":"record"}'},
        {"schema": '{"type":7}', "schemaType": "JSON"},
        {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"},
        {
            "schema": '{"type":"record","name":"S","fields":[{"name":"r","type":"R"}]}',
            "references": [{"name": "R", "subject": "nothing", "version": 1}],
        },
    )
    for body in bodies:
        with pytest.raises(RegistryRefusal) as caught:
            store.parse(body)
        assert caught.value.code == 42201


@pytest.mark.parametrize(
    "references",
    [
        "R",
        7,
        ["R"],
        [{"name": "R", "subject": "s"}],
        [{"name": "R", "subject": "s", "version": None}],
        [{"name": "R", "subject": "s", "version": "one"}],
        [{"name": "R", "subject": "s", "version": float("inf")}],
    ],
)
def test_invalid_references_are_refused(store: SchemaStore, references: JsonValue) -> None:
    with pytest.raises(RegistryRefusal, match="a reference has a name") as caught:
        store.parse({"schema": '"int"', "references": references})
    assert caught.value.code == 422


@pytest.mark.parametrize("name", ["ruleSet", "metadata"])
def test_a_contract_that_is_not_an_object_is_refused(store: SchemaStore, name: str) -> None:
    with pytest.raises(RegistryRefusal, match=f"a {name} is an object"):
        store.parse({"schema": '"int"', name: [1]})


def test_a_mode_forbids_writing(store: SchemaStore) -> None:
    store.set_mode("READONLY", "a")
    with pytest.raises(RegistryRefusal) as caught:
        register(store, "a", avro())
    assert caught.value.code == 42205
    assert (store.mode_of("a"), store.mode_of("b")) == ("READONLY", "READWRITE")
    store.reset_mode("a")
    assert register(store, "a", avro()) == (1, 1)
    calls: tuple[tuple[Callable[[], object], int], ...] = (
        (lambda: store.set_mode("NEVER"), 42204),
        (lambda: store.set_level("NEVER"), 42203),
        (lambda: store.own_level("a"), 40408),
        (lambda: store.own_mode("a"), 40409),
    )
    for call, code in calls:
        with pytest.raises(RegistryRefusal) as caught:
            call()
        assert caught.value.code == code


def test_a_normalized_schema_is_the_same_in_any_order_of_its_keys(store: SchemaStore) -> None:
    one: JsonObject = {"schema": '{"type":"object","title":"T"}', "schemaType": "JSON"}
    other: JsonObject = {"schema": '{"title":"T","type":"object"}', "schemaType": "JSON"}
    assert store.parse(one).identity != store.parse(other).identity
    assert store.parse(one, normalize=True).identity == store.parse(other, normalize=True).identity
