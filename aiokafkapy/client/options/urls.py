"""A cluster and its options in one URL, as services are given databases:
``kafka+sasl-ssl://user:pw@host:9093/?acks=all``.

Owns the grammar; the options' meaning is the configuration's. Kafka has no counterpart.

Rule: no message shows the URL, which may have a password in it.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, unquote

from ...common import parse_addresses
from ...errors import ConfigurationError
from .translation import plain_name

__all__ = ["options_of_url"]

# RFC 3986, appendix B: scheme, authority, path, query, fragment. urlsplit() of some Pythons takes an IPv6 address only
# as the first of the servers.
_PARTS: Final = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_PROTOCOLS: Final = {
    "kafka": None,
    "kafka+plaintext": "PLAINTEXT",
    "kafka+ssl": "SSL",
    "kafka+sasl-plaintext": "SASL_PLAINTEXT",
    "kafka+sasl-ssl": "SASL_SSL",
}
_FORM: Final = "write kafka+sasl-ssl://user:password@host:9093,host2:9093/?sasl.mechanism=PLAIN"
_ESCAPES: Final = "a password has %2F for /, %3F for ?, %23 for #"


def options_of_url(url: str) -> dict[str, str]:
    """The options in a URL, by our names; user and password may be percent-encoded, as its query is.

    ``kafka://`` alone leaves the protocol to the query. Raises ConfigurationError for a text that is not such a URL,
    and for an option that it has twice.
    """
    if not isinstance(url, str):
        raise ConfigurationError(f"the URL of the cluster is a {type(url).__name__}, not a str: {_FORM}")
    matched = _PARTS.fullmatch(url)
    assert matched is not None  # by any text
    scheme, authority, path, query, fragment = matched.groups(default="")
    scheme = scheme.lower()
    try:
        options = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise ConfigurationError(f"the URL of the cluster cannot be read: {_FORM}") from None
    if scheme not in _PROTOCOLS:
        raise ConfigurationError(f"the URL of the cluster has none of the schemes {', '.join(_PROTOCOLS)}: {_FORM}")
    if path not in ("", "/") or fragment:
        raise ConfigurationError(f"the URL of the cluster has more than servers and options; {_ESCAPES}: {_FORM}")
    credentials, _, servers = authority.rpartition("@")
    try:
        parse_addresses(servers)
    except ConfigurationError:  # its error shows the servers, for which it may have taken a password
        raise ConfigurationError(f"the servers in the URL of the cluster cannot be read; {_ESCAPES}: {_FORM}") from None
    user, colon, password = credentials.partition(":")
    found = {"bootstrap_servers": servers}
    protocol = _PROTOCOLS[scheme]
    given = [("security_protocol", protocol)] if protocol is not None else []
    given += [("sasl_username", unquote(user))] if user else []
    given += [("sasl_password", unquote(password))] if colon else []
    given += [(plain_name(name), value) for name, value in options]
    for name, value in given:
        if name in found:
            raise ConfigurationError(f"the URL of the cluster has {name} twice")
        found[name] = value
    return found
