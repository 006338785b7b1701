"""Java's ``sasl.jaas.config``, so that a working one can be pasted here.

Owns the syntax, ``Class flag name="value" …;``, and the list of known login modules. Runs no class. Kafka's
counterparts are ``JaasConfig`` and ``PlainLoginModule``, ``ScramLoginModule``, ``OAuthBearerLoginModule``.

Rule: a text that is not understood is refused, with the valid form; no value is shown, since any of them may be a
secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ...errors import ConfigurationError
from .secret import Secret

__all__ = ["JaasConfig", "parse_jaas_config"]

_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_MODULES: Final = ("PlainLoginModule", "ScramLoginModule", "OAuthBearerLoginModule")
_ADVICE: Final[Mapping[str, str]] = {
    "Krb5LoginModule": "sasl_mechanism='GSSAPI' uses the tickets of this process: run kinit, or set "
    "KRB5_CLIENT_KTNAME to a keytab, and write sasl_kerberos_service_name",
    "IAMLoginModule": "write sasl_mechanism='AWS_MSK_IAM' without sasl_jaas_config, and "
    "sasl_aws_msk_iam_credentials_provider if the environment has no credentials",
}
_TOKEN: Final = re.compile(
    r"""\s+|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<word>(?!/\*)[^\s"'=;{}]+)|(?P<sign>[=;])""",
    re.DOTALL,
)
_CLASS: Final = re.compile(r"[\w.$]{1,200}")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_MAX_LENGTH: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class JaasConfig:
    """A login module and its options; the values do not show."""

    module: str
    options: Mapping[str, Secret[str]] = field(default_factory=dict)

    def get(self, name: str) -> Secret[str] | None:
        """An option's value, None when it is not given or empty."""
        return self.options.get(name) or None


def parse_jaas_config(text: Secret[str]) -> JaasConfig:
    """Read one login module; raises ConfigurationError for another syntax and for modules that are not Kafka's own."""
    tokens = _tokens(text)
    if len(tokens) < 3 or tokens[0].kind != "word" or tokens[-1].kind != "sign" or tokens[-1].text != Secret(";"):
        raise _unreadable("write 'Class required name=\"value\" …;'")
    if any(token.kind == "sign" and token.text == Secret(";") for token in tokens[:-1]):
        raise _unreadable("it has more than one login module: write one")
    name = tokens[0].text.reveal()
    if not _CLASS.fullmatch(name):
        raise _unreadable("it does not begin with a class: write 'Class required name=\"value\" …;'")
    module = name.rpartition(".")[2]
    if tokens[1].text.reveal().lower() not in _FLAGS:
        raise _unreadable(f"a flag must come after {module}: write 'required'")
    if module not in _MODULES:
        advice = _ADVICE.get(module, "write sasl_mechanism with sasl_username and sasl_password, or pass an object")
        raise ConfigurationError(f"the login module {name!r} of sasl_jaas_config cannot be run here: {advice}")
    return JaasConfig(module, _options(tokens[2:-1]))


# internals


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: Secret[str]


def _tokens(text: Secret[str]) -> list[_Token]:
    source, place = text, 0
    size = len(source.reveal())
    if size > _MAX_LENGTH:
        raise _unreadable(f"it has {size:,} characters, at most {_MAX_LENGTH:,} are read")
    tokens = []
    while place < size:
        found = _TOKEN.match(source.reveal(), place)
        if found is None:
            raise _unreadable(f"a quote or a sign at character {place + 1} is not closed or not known")
        place, kind = found.end(), found.lastgroup
        if kind == "quoted":
            tokens.append(_Token("word", _unescaped(Secret(found[0][1:-1]))))
        elif kind in ("word", "sign"):
            tokens.append(_Token(kind, Secret(found[0])))
    return tokens


def _unescaped(text: Secret[str]) -> Secret[str]:
    """As Java's StreamTokenizer: ``\\n`` and its like, octal numbers, and any other character for itself."""

    def plain(found: re.Match[str]) -> str:
        escape = found[1]
        return chr(int(escape, 8)) if escape[0] in "01234567" else _ESCAPES.get(escape, escape)

    return Secret(re.sub(r"\\([0-3]?[0-7]{1,2}|.)", plain, text.reveal(), flags=re.DOTALL))


def _options(tokens: list[_Token]) -> dict[str, Secret[str]]:
    options: dict[str, Secret[str]] = {}
    if len(tokens) % 3:
        raise _unreadable('its options are not all pairs: write name="value" for each')
    for place in range(0, len(tokens), 3):
        name, sign, value = tokens[place : place + 3]
        if (name.kind, sign.text, value.kind) != ("word", Secret("="), "word"):
            raise _unreadable(f'option {place // 3 + 1} is not a pair: write name="value"')
        if name.text.reveal() in options:
            raise _unreadable(f"option {place // 3 + 1} is given twice")
        options[name.text.reveal()] = value.text
    return options


def _unreadable(what: str) -> ConfigurationError:
    return ConfigurationError(f"sasl_jaas_config cannot be read: {what}")
