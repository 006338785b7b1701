"""A real MIT Kerberos KDC for tests, on a free port, with its database in a separate directory.

    with Kdc() as kdc:
        service = kdc.add_principal("kafka/localhost")               # a keytab
        tickets = kdc.tickets_of("alice", kdc.add_principal("alice"))
        with kdc.in_environment(tickets):                            # this process is alice
            ...

Needs the programs of Debian's packages krb5-kdc, krb5-admin-server and krb5-user: see ``Kdc.unavailable_reason()``.

Rules: the machine's own Kerberos configuration is neither read nor changed. The environment belongs to the whole
process: use one KDC at a time.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from .ports import LOOPBACK
from .server_process import ServerProcess

__all__ = ["Kdc", "KdcError"]

REALM: Final = "TEST.AIOKAFKAPY"
# Debian installs them outside an ordinary user's PATH.
_PATH: Final = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
_PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


class KdcError(RuntimeError):
    """One of Kerberos's programs failed; the message has its output."""


class Kdc(ServerProcess):
    """A KDC of the realm TEST.AIOKAFKAPY; enter it with ``with``."""

    program = "krb5kdc"
    error_class = KdcError
    start_timeout = 30.0
    realm = REALM

    @staticmethod
    def unavailable_reason() -> str | None:
        """The missing requirements of a KDC here, or None."""
        missing = [program for program in _PROGRAMS if shutil.which(program, path=_PATH) is None]
        return f"{', '.join(missing)} not found (Debian: krb5-kdc krb5-admin-server krb5-user)" if missing else None

    @property
    def configuration(self) -> Path:
        """The krb5.conf of this KDC, for KRB5_CONFIG and for Java's ``java.security.krb5.conf``."""
        return self._directory / "krb5.conf"

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables to use this KDC, without tickets."""
        return {"KRB5_CONFIG": str(self.configuration), "KRB5CCNAME": f"FILE:{self._directory / 'no-tickets'}"}

    def add_principal(self, name: str) -> Path:
        """Add a user, ``alice``, or a service, ``kafka/localhost``; returns a keytab with its key."""
        keytab = self._directory / f"{name.replace('/', '-')}.keytab"
        self._run_kerberos("kadmin.local", "-r", self.realm, "-q", f"addprinc -randkey {name}")
        self._run_kerberos("kadmin.local", "-r", self.realm, "-q", f"ktadd -k {keytab} -norandkey {name}")
        if not keytab.exists():
            raise KdcError(f"kadmin.local did not write the keytab of {name}")
        return keytab

    def tickets_of(self, name: str, keytab: Path, lifetime: str = "1h") -> Mapping[str, str]:
        """The environment with fresh tickets of a principal, by ``kinit``."""
        cache = f"FILE:{self._directory / (name.replace('/', '-') + '.tickets')}"
        self._run_kerberos("kinit", "-k", "-t", str(keytab), "-l", lifetime, "-c", cache, f"{name}@{self.realm}")
        return {**self.environment, "KRB5CCNAME": cache}

    @contextlib.contextmanager
    def in_environment(self, variables: Mapping[str, str]) -> Iterator[None]:
        """Set these variables in this process's environment, where the Kerberos library reads them."""
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    # internals of ServerProcess

    def _prepare(self) -> None:
        self._write_configuration()
        self._run_kerberos("kdb5_util", "create", "-s", "-r", self.realm, "-P", "master")

    def _command(self) -> Sequence[str]:
        return [_path_of(self.program), "-n", "-r", self.realm, "-P", str(self._directory / "pid")]

    def _surroundings(self) -> dict[str, object]:
        return {"env": {**os.environ, **self.environment, "KRB5_KDC_PROFILE": str(self._directory / "kdc.conf")}}

    # internals

    def _write_configuration(self) -> None:
        address = f"{LOOPBACK}:{self.port}"
        self.configuration.write_text(
            f"[libdefaults]\n default_realm = {self.realm}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n kdc_timeout = 30\n"
            f"[realms]\n {self.realm} = {{\n  kdc = {address}\n }}\n"
            f"[domain_realm]\n localhost = {self.realm}\n"
        )
        (self._directory / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = {address}\n kdc_tcp_listen = {address}\n"
            f"[realms]\n {self.realm} = {{\n  database_name = {self._directory}/principal\n"
            f"  key_stash_file = {self._directory}/stash\n  acl_file = {self._directory}/kadm5.acl\n"
            f"  max_life = 10h\n }}\n[logging]\n kdc = FILE:{self._directory}/kdc.log\n"
        )

    def _run_kerberos(self, program: str, *arguments: str) -> None:
        self._run(_path_of(program), *arguments, called=f"{program} {arguments[0]}")


def _path_of(program: str) -> str:
    found = shutil.which(program, path=_PATH)
    if found is None:
        raise KdcError(f"there is no KDC here: {Kdc.unavailable_reason()}")
    return found
