"""A real KDC, started and ended; its tickets are tested with GSSAPI."""

from __future__ import annotations

import os
import shutil
import socket

import pytest

from aiokafkapy.testing.servers import server_process
from aiokafkapy.testing.servers.kdc import Kdc, KdcError


@pytest.fixture
def kdc_is_here() -> None:
    reason = Kdc.unavailable_reason()
    if reason is not None:
        if os.environ.get("AIOKAFKAPY_REQUIRE_KERBEROS") == "1":
            pytest.fail(f"a real KDC is required here: {reason}", pytrace=False)
        pytest.skip(f"NO KDC: {reason}")


@pytest.mark.usefixtures("kdc_is_here")
def test_a_kdc_gives_tickets_and_leaves_nothing_behind() -> None:
    before = dict(os.environ)
    with Kdc() as kdc:
        directory = kdc.configuration.parent
        tickets = kdc.tickets_of("alice", kdc.add_principal("alice"))
        with kdc.in_environment(tickets):
            assert os.environ["KRB5_CONFIG"] == str(kdc.configuration)
        assert dict(os.environ) == before
        with socket.create_connection(("127.0.0.1", kdc.port), timeout=5):
            pass
        with pytest.raises(KdcError, match=r"kinit -k: .*nobody"):
            kdc.tickets_of("nobody", directory / "alice.keytab")
    assert not directory.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", kdc.port), timeout=5)


def test_a_missing_library_is_named_with_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None if name == "krb5kdc" else f"/{name}")
    assert Kdc.unavailable_reason() == "krb5kdc not found (Debian: krb5-kdc krb5-admin-server krb5-user)"
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/{name}")
    assert Kdc.unavailable_reason() is None


@pytest.mark.usefixtures("kdc_is_here")
def test_a_kdc_that_does_not_start_says_why_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(server_process, "free_port", lambda: taken.getsockname()[1])
        kdc = Kdc()
        monkeypatch.setattr(Kdc, "_answers", lambda self: False)
        with pytest.raises(KdcError, match="krb5kdc did not start"):
            kdc.__enter__()
    assert not kdc.configuration.parent.exists()
