"""Parses ``proxy_url`` for python-socks; an invalid URL is an error that gives the valid form.

Owns the supported schemes. Knows no connection. Java has no counterpart; the option is kafka-python's.

Rule: no message shows the password that may be in the URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from python_socks import ProxyType

__all__ = ["ProxyAddress", "parse_proxy"]


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
            "proxy_url has no scheme that is known: write 'socks5://host:port', 'socks4://host:port' or "
            "'http://host:port', with user:password@ before the host where the proxy asks for them"
        )
    try:
        address = ProxyAddress(*parse_proxy_url(url.replace("socks5h://", "socks5://", 1)))
    except ValueError:
        address = None  # the library's message may contain the password
    if address is None or not address.host or not address.port:
        raise ConfigurationError(f"proxy_url has no host and port: write '{scheme}://host:port'")
    return address
