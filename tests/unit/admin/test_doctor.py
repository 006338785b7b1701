from __future__ import annotations

import asyncio

import pytest

from aiokafkapy.admin import doctor
from aiokafkapy.admin.doctor import Doctor
from aiokafkapy.client.config import ClientConfig
from aiokafkapy.client.network_client import NetworkClient
from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.errors import DisconnectedError
from tests.tcp_servers import tcp_server


async def test_its_clients_have_the_users_own_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Metadata] = []

    def new_client(config: ClientConfig, metadata: Metadata, *, loop: asyncio.AbstractEventLoop) -> NetworkClient:
        used.append(metadata)
        raise DisconnectedError("enough is known")

    monkeypatch.setattr(doctor, "NetworkClient", new_client)
    async with tcp_server(lambda _, writer: writer.close()) as (host, port):
        servers = f"{host}:{port}"
        config = ClientConfig(bootstrap_servers=servers, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
        await Doctor(config).examine()
    (metadata,) = used
    metadata.failed_update(now=0.0)
    assert metadata.time_to_next_update(now=0.0) > 40
