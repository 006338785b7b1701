"""Maps a Kerberos principal to a user's name, by Kafka's rules.

Owns the principal's form and ``sasl.kerberos.principal.to.local.rules``. Knows no Kerberos library and no SASL. Kafka's
counterparts are ``KerberosName``, ``KerberosShortNamer`` and ``KerberosRule``.

Rules, as there:

- the first rule that fits counts: ``DEFAULT`` fits principals of the broker's own realm and gives their first part;
  ``RULE:[n:text](pattern)s/pattern/replacement/gL`` fits principals with n parts, whose text, with ``$0`` for the realm
  and ``$1``, ``$2`` for the parts, fits the pattern as a whole. Pattern and replacement may be left out, ``g`` replaces
  every occurrence, ``L`` and ``U`` give lower and upper case;
- a principal is refused if no rule fits it, or if its name still contains ``/`` or ``@``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from ...errors import ConfigurationError
from ..java_patterns import compile_rule
from .defaults import KERBEROS_RULES

__all__ = ["LocalNameRules"]

_PRINCIPAL: Final = re.compile(r"(?P<name>[^/@]+)(?:/(?P<host>[^/@]*))?@(?P<realm>[^/@]+)")
_RULE: Final = re.compile(
    r"(?P<default>DEFAULT)|RULE:\[(?P<parts>\d+):(?P<text>[^\]]*)\](?:\((?P<fits>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g?))?/?(?P<case>[LU]?)"
)


class _Rule(NamedTuple):
    parts: int
    text: str
    fits: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: str
    replaces_all: bool
    case: str

    def apply(self, realm: str, parts: Sequence[str]) -> str | None:
        """The name that the rule makes; None when it does not fit."""
        if len(parts) != self.parts:
            return None
        text = re.sub(r"\$(\d)", lambda found: (realm, *parts)[int(found[1])], self.text)
        if self.fits is not None and self.fits.fullmatch(text) is None:
            return None
        if self.pattern is not None:
            text = self.pattern.sub(self.replacement, text, count=0 if self.replaces_all else 1)
        return text.lower() if self.case == "L" else text.upper() if self.case == "U" else text


class LocalNameRules:
    """Rules, as they are written. Raises ConfigurationError for any other text."""

    def __init__(self, rules: Sequence[str] = KERBEROS_RULES) -> None:
        self._rules = [_parsed(rule.strip()) for rule in rules]  # None: DEFAULT

    def local_name(self, principal: str, own_realm: str) -> str | None:
        """The user's name for ``alice@REALM`` or ``alice/host@REALM``; None when no rule gives one."""
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            return None
        realm = found["realm"]
        parts = [found["name"]] if found["host"] is None else [found["name"], found["host"]]
        for rule in self._rules:
            name = rule.apply(realm, parts) if rule is not None else parts[0] if realm == own_realm else None
            if name is not None:
                return name if name and not re.search("[/@]", name) else None
        return None


def _parsed(text: str) -> _Rule | None:
    where = f"sasl_kerberos_principal_to_local_rules: {text!r}"
    found = _RULE.fullmatch(text)
    if found is None:
        raise ConfigurationError(
            f"{where} is not a rule; write DEFAULT, or RULE:[n:text](pattern)s/pattern/replacement/ with g, L or U"
            " behind it"
        )
    if found["default"]:
        return None
    parts = int(found["parts"])
    if parts not in (1, 2):
        raise ConfigurationError(f"{where} is for principals with {parts} parts; they have 1 or 2")
    for number in re.findall(r"\$(\d)", found["text"]):
        if int(number) > parts:
            raise ConfigurationError(f"{where}: ${number} is more than the principal's {parts} parts")
    try:
        fits = None if found["fits"] is None else compile_rule(found["fits"], "")[0]
        pattern, replacement = compile_rule(found["pattern"] or "", found["replacement"] or "")
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from None
    has_pattern = found["pattern"] is not None
    return _Rule(
        parts, found["text"], fits, pattern if has_pattern else None, replacement, bool(found["all"]), found["case"]
    )
