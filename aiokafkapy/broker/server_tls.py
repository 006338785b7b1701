"""The TLS of servers beside the broker's own: the console's page, and the proxies and replays of ``testing``.

Owns the options that they take: the broker's TLS options. It must not know listeners nor sockets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..errors import ConfigurationError
from .config import BrokerConfig

if TYPE_CHECKING:
    from ..security.tls import TlsContexts

__all__ = ["check_tls_names", "server_tls"]


def server_tls(options: Mapping[str, object]) -> TlsContexts:
    """The TLS of a server, from a broker's TLS options: ``ssl_keystore_location``, ….

    Raises ConfigurationError for any other option, and for files that cannot be used.
    """
    check_tls_names(options)
    from ..security.tls import TlsContexts

    config = BrokerConfig.of(**options)
    tls = TlsContexts(config, server_side=True, client_auth=config.ssl_client_auth)
    tls.context()
    return tls


def check_tls_names(options: Iterable[str]) -> None:
    """Raise ConfigurationError for a name that is not an option of TLS."""
    for name in options:
        if not name.startswith("ssl_"):
            raise ConfigurationError(f"{name} is not an option of TLS: their names begin with ssl_")
