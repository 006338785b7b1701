"""The REST API of a schema registry over a ``SchemaStore``: paths, queries, bodies, answers.

Owns the shapes on the wire, Confluent's, for aiohttp; the store decides.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from ...common import JsonLike, JsonValue
from .errors import RegistryRefusal
from .formats import ParsedSchema
from .store import SchemaStore, Version

__all__ = ["CONTENT_TYPE", "answer", "make_routes"]

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Decide = Callable[[SchemaStore, web.Request, JsonValue], JsonLike]


def make_routes(store: SchemaStore) -> list[web.RouteDef]:
    """Every path of the API."""
    return [web.route(method, path, _handler(store, decide)) for (method, path), decide in _ROUTES.items()]


def answer(body: JsonLike, status: int = 200) -> web.Response:
    """An answer in the API's own content type."""
    return web.Response(body=json.dumps(body).encode(), status=status, content_type=CONTENT_TYPE)


def _handler(store: SchemaStore, decide: Decide) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        body = None
        if request.can_read_body:
            try:
                body = json.loads(await request.read())
            except (ValueError, RecursionError):
                return answer({"error_code": 400, "message": "Unable to process JSON"}, 400)
        try:
            return answer(decide(store, request, body))
        except RegistryRefusal as error:
            return answer({"error_code": error.code, "message": error.message}, error.status)

    return handle


def _is_set(request: web.Request, name: str) -> bool:
    return request.query.get(name, "false").lower() == "true"


def _subject(request: web.Request) -> str:
    return request.match_info["subject"]


def _schema_json(schema: ParsedSchema) -> dict[str, JsonLike]:
    body: dict[str, JsonLike] = {"schema": schema.text, "guid": schema.guid}
    if schema.kind != "AVRO":
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [
            {"name": name, "subject": subject, "version": version} for name, subject, version in schema.references
        ]
    if schema.rule_set is not None:
        body["ruleSet"] = schema.rule_set
    if schema.metadata is not None:
        body["metadata"] = schema.metadata
    return body


def _version_json(version: Version) -> dict[str, JsonLike]:
    return {"subject": version.subject, "version": version.number, "id": version.id, **_schema_json(version.schema)}


# schemas


def _register(store: SchemaStore, request: web.Request, body: JsonValue) -> JsonLike:
    schema = store.parse(body, normalize=_is_set(request, "normalize"))
    version = store.register(_subject(request), schema, id=body.get("id") if isinstance(body, dict) else None)
    return {"id": version.id, "version": version.number, **_schema_json(version.schema)}


def _lookup(store: SchemaStore, request: web.Request, body: JsonValue) -> JsonLike:
    deleted = _is_set(request, "deleted")
    store.versions(_subject(request), deleted=deleted)
    schema = store.parse(body, normalize=_is_set(request, "normalize"))
    return _version_json(store.lookup(_subject(request), schema, deleted=deleted))


def _number(request: web.Request) -> int:
    text = request.match_info["id"]
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise RegistryRefusal(404, "HTTP 404 Not Found")
    return int(text)


def _schema_by_id(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return _schema_json(store.schema(_number(request)))


def _text_by_id(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return _raw(store.schema(_number(request)))


def _schema_by_guid(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    schema_id, schema = store.schema_of_guid(request.match_info["guid"])
    return {"id": schema_id, **_schema_json(schema)}


def _subjects_of_id(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return sorted({one.subject for one in store.uses_of_id(_number(request))})


def _versions_of_id(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return [{"subject": one.subject, "version": one.number} for one in store.uses_of_id(_number(request))]


def _types(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return ["JSON", "PROTOBUF", "AVRO"]


# subjects


def _subjects(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return store.subjects(deleted=_is_set(request, "deleted"), prefix=request.query.get("subjectPrefix", ""))


def _versions(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return [one.number for one in store.versions(_subject(request), deleted=_is_set(request, "deleted"))]


def _chosen(store: SchemaStore, request: web.Request) -> Version:
    number = request.match_info["version"]
    return store.version(_subject(request), number, deleted=_is_set(request, "deleted"))


def _version(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return _version_json(_chosen(store, request))


def _raw(schema: ParsedSchema) -> JsonLike:
    return schema.text if schema.kind == "PROTOBUF" else schema.content


def _version_text(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return _raw(_chosen(store, request).schema)


def _referenced_by(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return store.referenced_by(_chosen(store, request))


def _delete_subject(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return store.delete_subject(_subject(request), permanent=_is_set(request, "permanent"))


def _delete_version(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    number = request.match_info["version"]
    return store.delete_version(_subject(request), number, permanent=_is_set(request, "permanent"))


# compatibility and modes


def _check(store: SchemaStore, request: web.Request, body: JsonValue) -> JsonLike:
    subject = _subject(request)
    schema = store.parse(body, normalize=_is_set(request, "normalize"))
    level = store.level_of(subject)
    number = request.match_info.get("version")
    against = store.compared(subject, level) if number is None else [store.version(subject, number)]
    problems = store.problems(schema, against, level)
    told: dict[str, JsonLike] = {"is_compatible": not problems}
    return told | ({"messages": problems} if _is_set(request, "verbose") else {})


def _global_level(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return {"compatibilityLevel": store.level}


def _level(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    subject = _subject(request)
    is_default = _is_set(request, "defaultToGlobal")
    return {"compatibilityLevel": store.level_of(subject) if is_default else store.own_level(subject)}


def _put_level(store: SchemaStore, request: web.Request, body: JsonValue) -> JsonLike:
    given = body.get("compatibility") if isinstance(body, dict) else None
    return {"compatibility": store.set_level(given, request.match_info.get("subject"))}


def _delete_level(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return {"compatibilityLevel": store.reset_level(request.match_info.get("subject"))}


def _global_mode(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return {"mode": store.mode}


def _mode(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    subject = _subject(request)
    is_default = _is_set(request, "defaultToGlobal")
    return {"mode": store.mode_of(subject) if is_default else store.own_mode(subject)}


def _put_mode(store: SchemaStore, request: web.Request, body: JsonValue) -> JsonLike:
    given = body.get("mode") if isinstance(body, dict) else None
    return {"mode": store.set_mode(given, request.match_info.get("subject"), force=_is_set(request, "force"))}


def _delete_mode(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return {"mode": store.reset_mode(_subject(request))}


# keys


def _keks(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return store.keys.names()


def _create_kek(store: SchemaStore, request: web.Request, body: JsonValue) -> JsonLike:
    return store.keys.create_kek(body)


def _kek(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return store.keys.kek(request.match_info["kek"])


def _create_dek(store: SchemaStore, request: web.Request, body: JsonValue) -> JsonLike:
    return store.keys.create_dek(request.match_info["kek"], _subject(request), body)


def _dek(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    kek, version = request.match_info["kek"], request.match_info["version"]
    return store.keys.dek(kek, _subject(request), version, request.query.get("algorithm", ""))


def _root(store: SchemaStore, request: web.Request, _: JsonValue) -> JsonLike:
    return {}


_ROUTES: Final[dict[tuple[str, str], Decide]] = {
    ("GET", "/"): _root,
    ("GET", "/schemas/types"): _types,
    ("GET", "/schemas/ids/{id}"): _schema_by_id,
    ("GET", "/schemas/ids/{id}/schema"): _text_by_id,
    ("GET", "/schemas/ids/{id}/subjects"): _subjects_of_id,
    ("GET", "/schemas/ids/{id}/versions"): _versions_of_id,
    ("GET", "/schemas/guids/{guid}"): _schema_by_guid,
    ("GET", "/subjects"): _subjects,
    ("POST", "/subjects/{subject}"): _lookup,
    ("DELETE", "/subjects/{subject}"): _delete_subject,
    ("GET", "/subjects/{subject}/versions"): _versions,
    ("POST", "/subjects/{subject}/versions"): _register,
    ("GET", "/subjects/{subject}/versions/{version}"): _version,
    ("DELETE", "/subjects/{subject}/versions/{version}"): _delete_version,
    ("GET", "/subjects/{subject}/versions/{version}/schema"): _version_text,
    ("GET", "/subjects/{subject}/versions/{version}/referencedby"): _referenced_by,
    ("POST", "/compatibility/subjects/{subject}/versions"): _check,
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"): _check,
    ("GET", "/config"): _global_level,
    ("PUT", "/config"): _put_level,
    ("DELETE", "/config"): _delete_level,
    ("GET", "/config/{subject}"): _level,
    ("PUT", "/config/{subject}"): _put_level,
    ("DELETE", "/config/{subject}"): _delete_level,
    ("GET", "/mode"): _global_mode,
    ("PUT", "/mode"): _put_mode,
    ("GET", "/mode/{subject}"): _mode,
    ("PUT", "/mode/{subject}"): _put_mode,
    ("DELETE", "/mode/{subject}"): _delete_mode,
    ("GET", "/dek-registry/v1/keks"): _keks,
    ("POST", "/dek-registry/v1/keks"): _create_kek,
    ("GET", "/dek-registry/v1/keks/{kek}"): _kek,
    ("POST", "/dek-registry/v1/keks/{kek}/deks/{subject}"): _create_dek,
    ("GET", "/dek-registry/v1/keks/{kek}/deks/{subject}/versions/{version}"): _dek,
}
