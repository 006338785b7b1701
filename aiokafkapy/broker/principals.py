"""The principal behind a client certificate: its subject as a distinguished name, and the rules that make a principal
of it.

Owns the name's text form (RFC 2253, as Java writes it) and ``ssl.principal.mapping.rules``. It must not know TLS.
Kafka's counterparts are ``DefaultKafkaPrincipalBuilder`` and ``SslPrincipalMapper``.

Rules, as in Kafka:

- rules are separated by commas: ``RULE:pattern/replacement/``, optionally followed by ``L`` or ``U`` for lower or upper
  case, and ``DEFAULT``, which keeps the name; the first rule whose pattern matches the whole name applies;
- a name that no rule fits is refused, and so is its connection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ..errors import ConfigurationError
from ..security.java_patterns import compile_rule

__all__ = ["PrincipalRules", "distinguished_name"]

_ABBREVIATIONS: Final[Mapping[str, str]] = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_SPECIAL: Final = re.compile(r'([,+"\\<>;])|(^[ #])|( $)')

_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))"
    r"\s*(?:,|$)"
)


def distinguished_name(subject: Sequence[Sequence[tuple[str, str]]]) -> str:
    """The subject of ``SSLSocket.getpeercert()`` in RFC 2253's form: ``CN=alice,OU=Data,O=Example,C=DE``."""
    return ",".join("+".join(_attribute(*pair) for pair in part) for part in reversed(subject))


class PrincipalRules:
    """Rules, as they are written. Raises ConfigurationError for any other text."""

    def __init__(self, text: str) -> None:
        self._rules: list[tuple[re.Pattern[str], str, str] | None] = []  # None: DEFAULT
        position = 0
        while position < len(text):
            found = _RULE.match(text, position)
            if found is None:
                raise ConfigurationError(
                    f"ssl_principal_mapping_rules={text!r}: {text[position:]!r} is not a rule;"
                    " write DEFAULT, or RULE:pattern/replacement/ with L or U behind it"
                )
            self._rules.append(None if found["default"] else _rule(text, found))
            position = found.end()

    def principal(self, name: str) -> str | None:
        """The principal of a distinguished name, ``User:…``; None when no rule fits."""
        for rule in self._rules:
            if rule is None:
                return f"User:{name}"
            pattern, replacement, case = rule
            found = pattern.fullmatch(name)
            if found is not None:
                mapped = found.expand(replacement)
                return f"User:{mapped.lower() if case == 'L' else mapped.upper() if case == 'U' else mapped}"
        return None


# internals


def _rule(text: str, found: re.Match[str]) -> tuple[re.Pattern[str], str, str]:
    try:
        return *compile_rule(found["pattern"], found["replacement"]), found["case"]
    except ValueError as error:
        raise ConfigurationError(f"ssl_principal_mapping_rules={text!r}: {error}") from None


def _attribute(kind: str, value: str) -> str:
    if kind == "emailAddress":  # Java has no short name for it, and shows its bytes: an IA5String
        encoded = value.encode("ascii", "replace")
        return f"1.2.840.113549.1.9.1=#16{_length(len(encoded)).hex()}{encoded.hex()}"
    return f"{_ABBREVIATIONS.get(kind, kind)}={_SPECIAL.sub(_escape, value)}"


def _escape(found: re.Match[str]) -> str:
    return "\\" + found[0]


def _length(size: int) -> bytes:
    return bytes([size]) if size < 0x80 else bytes([0x81, size]) if size < 0x100 else b"\x82" + size.to_bytes(2, "big")
