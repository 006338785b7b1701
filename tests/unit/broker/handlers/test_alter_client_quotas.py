"""AlterClientQuotas and DescribeClientQuotas."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey

from .group_requests import versions
from .harness import Harness

EXACT, DEFAULT, ANY = range(3)


def alter(harness: Harness, version: int = 1, *, validate_only: bool = False, **entity: Any) -> int:
    ops = [{"key": "producer_byte_rate", "value": 100.0}]
    parts = [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in entity.items()]
    entries = [{"entity": parts, "ops": ops}]
    body = harness.call(ApiKey.ALTER_CLIENT_QUOTAS, version, entries=entries, validate_only=validate_only)
    return int(body.entries[0].error_code)


def describe(harness: Harness, *filters: tuple[str, int, str | None], version: int = 1, strict: bool = False) -> Any:
    components = [{"entity_type": kind, "match_type": match, "match": name} for kind, match, name in filters]
    body = harness.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, components=components, strict=strict)
    if body.error_code:
        return int(body.error_code)
    return [tuple((part.entity_type, part.entity_name) for part in entry.entity) for entry in body.entries]


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CLIENT_QUOTAS))
async def test_quotas_are_set_and_found(harness: Harness, version: int) -> None:
    assert alter(harness, version, user="u") == 0
    assert alter(harness, version, user="u", client_id="c") == 0
    assert alter(harness, version, client_id=None) == 0
    user, pair, default = (("user", "u"),), (("client-id", "c"), ("user", "u")), (("client-id", None),)
    assert describe(harness, version=version) == [user, pair, default]
    assert describe(harness, ("user", EXACT, "u"), version=version) == [user, pair]
    assert describe(harness, ("user", EXACT, "u"), strict=True, version=version) == [user]
    assert describe(harness, ("client-id", DEFAULT, None), version=version) == [default]
    assert describe(harness, ("client-id", ANY, None), version=version) == [pair, default]
    assert describe(harness, ("user", ANY, None), ("user", ANY, None), version=version) == 42
    assert describe(harness, strict=True, version=version) == []


async def test_an_invalid_quota_is_its_entitys_error(harness: Harness) -> None:
    assert alter(harness, validate_only=True, user="u") == 0
    assert alter(harness, ip="127.0.0.1") == 42
    assert describe(harness) == []
    part = {"entity_type": "user", "entity_name": "u"}
    body = harness.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": [part, part], "ops": []}])
    assert body.entries[0].error_code == 42
    alter(harness, user="u")
    ops = [{"key": "producer_byte_rate", "remove": True}]
    harness.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": [part], "ops": ops}])
    assert describe(harness) == []
