"""A dev broker whose listeners need TLS or SASL, and runs of other people's clients on it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from aiokafkapy.broker import DevBroker, Listener
from aiokafkapy.broker.listeners import Listeners
from aiokafkapy.testing import TestCertificates

__all__ = ["PROGRAMS", "SASL", "USERS", "run", "secured"]

USERS = {"alice": "alice-secret", "bob": "bob-secret", "a=b,c": "odd"}
SASL: Listeners = {"SASL_PLAINTEXT": "127.0.0.1:0"}
PROGRAMS = Path(__file__).with_name("secure_client_programs.py")


async def run(program: str, settings: dict[str, Any]) -> Any:
    """Run one of the programs to its end and return its output."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAMS), program, json.dumps(settings), stdout=-1, stderr=-1
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), 90)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, errors.decode()
    return json.loads(output)


def secured(certificates: TestCertificates, **options: Any) -> DevBroker:
    """A broker that has every protocol."""
    server = certificates.server_options()
    del server["security_protocol"]
    listeners: Listeners = {
        "SSL": Listener("SSL", ssl_client_auth="requested", **server),
        "SASL_SSL": Listener("SASL_SSL", **server),
        **SASL,
    }
    mechanisms = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    return DevBroker(2, listeners=listeners, sasl_users=USERS, sasl_enabled_mechanisms=mechanisms, **options)
