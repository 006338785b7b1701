"""Parses ``proxy_url`` for python-socks; an invalid URL is an error that gives the valid form.

Owns the supported schemes. Knows no connection. Java has no counterpart; the option is kafka-python's.

Rule: no message shows the password that may be in the URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ...errors import ConfigurationError

if TYPE_CHECKING:
    from python_socks import ProxyType

__all__ = ["ProxyAddress", "parse_proxy"]

_MAX_SOCKS_CREDENTIAL: Final = 255
"""RFC 1929: the lengths are bytes."""


class ProxyAddress(NamedTuple):
    """A proxy, as python-socks takes it."""

    kind: ProxyType
    host: str
    port: int
    username: str | None
    password: str | None


def parse_proxy(url: str) -> ProxyAddress:
    """The proxy at ``url``; raises ConfigurationError for an invalid URL, and if python-socks is not installed."""
    try:
        from python_socks import parse_proxy_url
    except ModuleNotFoundError:
        raise ConfigurationError("proxy_url needs python-socks: pip install 'aiokafkapy[proxy]'") from None
    scheme, separator, _ = url.partition("://")
    if not separator or scheme.lower() not in ("socks4", "socks5", "socks5h", "http"):
        raise ConfigurationError(
            "proxy_url has no known scheme: write 'socks5://host:port', 'socks4://host:port' or "
            "'http://host:port', with user:password@ before the host where the proxy asks for them"
        )
    try:
        address = ProxyAddress(*parse_proxy_url(url.replace("socks5h://", "socks5://", 1)))
    except ValueError:
        address = None  # the library's message may contain the password
    if address is None or not address.host or not address.port:
        raise ConfigurationError(f"proxy_url has no host and port: write '{scheme}://host:port'")
    _check_credentials(address, is_http=scheme.lower() == "http")
    return address


def _check_credentials(address: ProxyAddress, *, is_http: bool) -> None:
    """Raise for credentials that python-socks cannot send: each attempt would fail, with an error that shows them."""
    user, password = address.username or "", address.password or ""
    if is_http and any(ord(one) > 0xFF for one in user + password):
        raise ConfigurationError("proxy_url: an HTTP proxy takes a user and a password of Latin-1 characters only")
    if is_http and ":" in user:
        raise ConfigurationError("proxy_url: an HTTP proxy takes no user with a colon")
    if not is_http and not (user + password).isascii():
        raise ConfigurationError("proxy_url: a SOCKS proxy takes a user and a password of ASCII characters only")
    if not is_http and max(len(user), len(password)) > _MAX_SOCKS_CREDENTIAL:
        raise ConfigurationError(
            f"proxy_url: a SOCKS proxy takes a user and a password of at most {_MAX_SOCKS_CREDENTIAL} characters"
        )
