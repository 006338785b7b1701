"""A real MIT Kerberos KDC for tests, on a free port, with its database in a directory of its own.

    with Kdc() as kdc:
        service = kdc.add_principal("kafka/localhost")               # a keytab
        tickets = kdc.tickets_of("alice", kdc.add_principal("alice"))
        with kdc.in_environment(tickets):                            # this process is alice
            ...

Needs the programs of Debian's packages krb5-kdc, krb5-admin-server and krb5-user: see ``Kdc.unavailable_reason()``.

Rules: the machine's own Kerberos configuration is neither read nor changed. Nothing outlives the owner: a ``Watchdog``
ends the KDC and removes its files. The environment belongs to the whole process: use one KDC at a time.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self

from .ports import LOOPBACK, free_port
from .watchdog import Watchdog

__all__ = ["Kdc", "KdcError"]

REALM: Final = "TEST.AIOKAFKAPY"
START_TIMEOUT: Final = 30.0
STOP_TIMEOUT: Final = 10.0
# Debian installs them outside an ordinary user's PATH.
_PATH: Final = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
_PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


class KdcError(RuntimeError):
    """One of Kerberos's programs failed; the message has its output."""


class Kdc:
    """A KDC of the realm TEST.AIOKAFKAPY; enter it with ``with``."""

    def __init__(self) -> None:
        self.realm = REALM
        self.port = 0
        self._directory = Path()
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: Watchdog | None = None

    @staticmethod
    def unavailable_reason() -> str | None:
        """What is missing for a KDC here, or None."""
        missing = [program for program in _PROGRAMS if shutil.which(program, path=_PATH) is None]
        return f"{', '.join(missing)} not found (Debian: krb5-kdc krb5-admin-server krb5-user)" if missing else None

    def __enter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="aiokafkapy-kdc-"))
        self._watchdog = Watchdog(str(self._directory))
        try:
            self.port = free_port()
            self._write_configuration()
            self._run("kdb5_util", "create", "-s", "-r", self.realm, "-P", "master")
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._watchdog is not None:
                self._watchdog.release(self._process.pid)
            self._process = None
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None

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
        self._run("kadmin.local", "-r", self.realm, "-q", f"addprinc -randkey {name}")
        self._run("kadmin.local", "-r", self.realm, "-q", f"ktadd -k {keytab} -norandkey {name}")
        if not keytab.exists():
            raise KdcError(f"kadmin.local did not write the keytab of {name}")
        return keytab

    def tickets_of(self, name: str, keytab: Path, lifetime: str = "1h") -> Mapping[str, str]:
        """The environment with fresh tickets of a principal, by ``kinit``."""
        cache = f"FILE:{self._directory / (name.replace('/', '-') + '.tickets')}"
        self._run("kinit", "-k", "-t", str(keytab), "-l", lifetime, "-c", cache, f"{name}@{self.realm}")
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

    def _start(self) -> None:
        with (self._directory / "console.log").open("wb") as console:
            self._process = subprocess.Popen(
                [self._path("krb5kdc"), "-n", "-r", self.realm, "-P", str(self._directory / "pid")],
                env=self._program_environment(),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        assert self._watchdog is not None  # made just before
        self._watchdog.guard(self._process.pid)
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (self._directory / "console.log").read_text(errors="replace")
                raise KdcError(f"krb5kdc did not start: {said.strip() or 'it said nothing'}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.port), timeout=1.0):
            return True
        return False

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._path(program), *arguments],
            env=self._program_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=START_TIMEOUT,
        )
        if done.returncode:
            raise KdcError(f"{program} {arguments[0]}: {done.stderr.strip() or done.stdout.strip()}")

    def _path(self, program: str) -> str:
        found = shutil.which(program, path=_PATH)
        if found is None:
            raise KdcError(f"there is no KDC here: {self.unavailable_reason()}")
        return found

    def _program_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment, "KRB5_KDC_PROFILE": str(self._directory / "kdc.conf")}
