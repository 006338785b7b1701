"""``Guard``: decides which requests the console answers. Pure decisions about a request's headers; ``app`` asks it
first.

Owns the rules against foreign pages, which a browser on this machine may show at any time, and against other machines
in the network:

- the Host of a request must be ours: a foreign page may give its own name our address (DNS rebinding), and would then
  be same-origin. On loopback the names of loopback are allowed; elsewhere addresses, and the allowed names;
- a console that listens beyond loopback has a token; it comes once in the page's address, and then in a cookie that
  other sites' requests do not carry, or as a bearer token;
- a changing request must come from our own page: its Origin is ours, and it has a header that no form and no other
  page can send without a preflight request;
- in read-only mode changing requests are refused.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from ..admin.diagnosis import is_loopback

__all__ = ["HEADER", "Guard", "Refusal", "new_token"]

HEADER: Final = "x-aiokafkapy-console"
"""The header of changing requests."""
SHORTEST_TOKEN: Final = 16
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a request is not answered."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides by headers, whose names are in lower case. Without ``token`` no token is required."""

    host: str
    port: int
    token: str | None = None
    is_read_only: bool = False
    allowed_hosts: Collection[str] = ()
    has_tls: bool = False

    @property
    def cookie(self) -> str:
        """The cookie's name, with the port: cookies do not distinguish ports."""
        return f"aiokafkapy-console-{self.port}"

    def refusal(self, method: str, headers: Mapping[str, str], cookie: str | None) -> Refusal | None:
        """The reason why a request is refused; None for an accepted one. ``cookie`` is our cookie in the request, if
        any.
        """
        host = headers.get("host", "")
        if not self._is_our_host(host):
            return Refusal(421, f"no console of the host {host!r} is here: open it by its address")
        if self.token is not None and not self._has_token(headers, cookie):
            return Refusal(401, "the token is missing or wrong: open the address that was printed at the start")
        if method in ("GET", "HEAD"):
            return None
        if self.is_read_only:
            return Refusal(403, "this console is read-only")
        if not self._is_our_page(headers, host):
            return Refusal(403, "only the console's own page may change something")
        return None

    def is_token(self, given: str) -> bool:
        """True if this is the token."""
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())

    # internals

    def _is_our_host(self, host: str) -> bool:
        name, _, port = host.rpartition(":")
        if not port.isdigit() or host.endswith("]"):
            name, port = host, "443" if self.has_tls else "80"
        name = name.removeprefix("[").removesuffix("]").lower().rstrip(".")
        if name in {each.lower() for each in self.allowed_hosts}:
            return True  # a proxy's name, which has its own port
        if port != str(self.port):
            return False
        if is_loopback(self.host):
            return name in _LOOPBACK_NAMES or name == self.host
        return name == self.host.lower() or name in _LOOPBACK_NAMES or _is_address(name)

    def _has_token(self, headers: Mapping[str, str], cookie: str | None) -> bool:
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        return (cookie is not None and self.is_token(cookie)) or (kind.lower() == "bearer" and self.is_token(bearer))

    def _is_our_page(self, headers: Mapping[str, str], host: str) -> bool:
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return False
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return False
        return HEADER in headers


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
