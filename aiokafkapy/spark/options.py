"""The options of a query: looked up in any case and checked; Kafka's are translated.

Owns the part that reading and writing share: parsing of values, ``OptionError``, the translation of ``kafka.*`` into
the properties of our configurations, and the warning that names ignored options. Spark's counterparts are
``KafkaSourceProvider`` and ``KafkaConfigUpdater``. It knows neither Spark nor asyncio.

Rules:

- Everything is checked on the driver, before a task runs; an error names option, value, and expectation.
- An option that the connector takes and that has no meaning here is ignored, with one warning. An option that would
  change the result, and cannot be kept, is refused.
- A name that is unknown to Kafka and to Spark's connector is refused, with the nearest one: it is misspelt.
- Names are looked up in lower case, as Spark hands them on; Kafka's own names are in lower case.
- No message shows a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NoReturn, TypeVar

from ..client.config import ClientConfig
from ..client.options.foreign_options import SECURITY_NAMES, is_built_in
from ..common import HIDDEN
from ..errors import ConfigurationError
from ..observability import get_logger, is_secret_name
from ..security.protocols import has_sasl, has_tls
from .kafka_options import KAFKA_OPTIONS
from .worker.worker_log import show_warnings

__all__ = [
    "JAVA_ONLY",
    "OptionError",
    "Options",
    "kafka_properties",
    "parse_flag",
    "parse_number",
    "used_properties",
    "warn_ignored",
]

T = TypeVar("T")

KAFKA_PREFIX: Final = "kafka."
BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"
TABLES: Final = (
    "Is this a table of CREATE TABLE or saveAsTable? Spark gives a source in Python none of its options: use "
    "CREATE TEMPORARY VIEW ... USING aiokafkapy OPTIONS (...), SELECT ... FROM t WITH (...), or save()"
)

_OF_SPARK: Final = frozenset(
    {
        "checkpointlocation",
        "queryname",
        # Spark refuses a stream with it for every sink but the connector's own; in a batch it ignores it.
        "asyncprogresstrackingenabled",
        "asyncprogresstrackingcheckpointintervalms",
    }
)
"""Options that Spark itself reads, and hands on to us with the rest."""

# Options of Kafka's Java client that would change the records or the security of a connection, and that
# cannot be kept outside of a JVM; with their replacements.
JAVA_ONLY: Final[Mapping[str, str]] = {
    "interceptor.classes": "nothing: a Java class cannot run here, use a column expression instead",
    "security.providers": "nothing: a Java class cannot run here",
    "config.providers": "nothing: a Java class cannot run here, put the value itself",
    "sasl.kerberos.kinit.cmd": "nothing: run kinit before the job",
    "ssl.engine.factory.class": "nothing: Python's ssl module is used",
    "ssl.provider": "nothing: Python's ssl module is used",
    "ssl.keymanager.algorithm": "nothing: Python's ssl module is used",
    "ssl.trustmanager.algorithm": "nothing: Python's ssl module is used",
    "ssl.secure.random.implementation": "nothing: Python's ssl module is used",
}
_STORES: Final = ("ssl.keystore.type", "ssl.truststore.type")


_logger = get_logger(__name__)


class OptionError(ValueError):
    """An option of a query is missing, is unknown, or has an invalid value."""

    def __init__(self, option: str, value: object, expected: str) -> None:
        self.option = option
        self.value = value
        self.expected = expected
        if value is None:
            text = f"option {option!r} is missing: expected {expected}"
        else:
            text = f"option {option!r} is {_shown(option, value)!r}: expected {expected}"
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.option, self.value, self.expected)


class Options(Mapping[str, str]):
    """A query's options, in any case: ``options["startingOffsets"]``.

    ``known`` are our names; names in ``meaningless`` are left out and listed in ``ignored``. Names that begin
    with ``kafka.`` are not checked here. Raises OptionError for any other name.
    """

    def __init__(self, options: Mapping[str, str], known: Iterable[str], meaningless: Iterable[str] = ()) -> None:
        self._spelling = {name.lower(): name for name in known}
        self._values: dict[str, str] = {}
        self.ignored: list[str] = []
        without_meaning = {name.lower(): name for name in meaningless}
        for name, value in options.items():
            lowered = name.strip().lower()
            if lowered in self._spelling or lowered.startswith(KAFKA_PREFIX):
                self._values[lowered] = str(value)
            elif lowered in without_meaning:
                self.ignored.append(without_meaning[lowered])
            elif lowered not in _OF_SPARK:
                self._refuse(lowered, str(value))

    def text(self, name: str) -> str | None:
        """The value without the space around it; None when it is not given. Raises OptionError when it is empty."""
        value = self.get(name)
        if value is None:
            return None
        value = value.strip()
        if not value:
            raise OptionError(self._spelled(name), self[name], "a value, or leave the option out")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false. Raises OptionError for anything else."""
        value = self.get(name)
        return default if value is None else parse_flag(self._spelled(name), value)

    def number(self, name: str, default: int | None = None, minimum: int = 0) -> int | None:
        """A whole number of at least ``minimum``. Raises OptionError for anything else."""
        value = self.get(name)
        return default if value is None else parse_number(self._spelled(name), value, minimum)

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def _spelled(self, name: str) -> str:
        return self._spelling.get(name.lower(), name)

    def _refuse(self, name: str, value: str) -> NoReturn:
        if name in ClientConfig.model_fields or name.replace(".", "_") in ClientConfig.model_fields:
            raise OptionError(name, value, f"its name to be {KAFKA_PREFIX}{name.replace('_', '.')}")
        spelled = [*self._spelling.values(), BOOTSTRAP_SERVERS]
        near = difflib.get_close_matches(name, [known.lower() for known in spelled], n=1, cutoff=0.6)
        expected = (
            f"no such option: did you mean {self._spelled(near[0])!r}?"
            if near
            else f"no such option; there are {', '.join(sorted(spelled))} and kafka.*"
        )
        raise OptionError(name, value, expected)


def parse_flag(name: str, value: str) -> bool:
    """``true`` or ``false`` in any case, as Scala's ``toBoolean``. Raises OptionError."""
    lowered = str(value).strip().lower()
    if lowered not in ("true", "false"):
        raise OptionError(name, value, "'true' or 'false'")
    return lowered == "true"


def parse_number(name: str, value: str, minimum: int = 0) -> int:
    """A whole number of at least ``minimum``. Raises OptionError."""
    text = str(value).strip()
    try:
        number = int(text)
    except ValueError:
        number = minimum - 1
    if number < minimum or not text.lstrip("+-").isascii():
        raise OptionError(name, value, f"a whole number of at least {minimum}")
    return number


def kafka_properties(options: Mapping[str, str], refused: Mapping[str, str] | None = None) -> dict[str, str]:
    """The options ``kafka.*`` under Kafka's own names.

    Raises OptionError without ``kafka.bootstrap.servers``, for a name in ``refused`` with the text there, and for an
    option that only a Java client can keep.
    """
    properties: dict[str, str] = {}
    for option, value in options.items():
        lowered = option.lower()
        if not lowered.startswith(KAFKA_PREFIX):
            continue
        name = lowered.removeprefix(KAFKA_PREFIX)
        if refused is not None and name in refused:
            raise OptionError(KAFKA_PREFIX + name, value, refused[name])
        _refuse_java(name, value)
        properties[name] = value
    if not properties.get("bootstrap.servers", "").strip():
        expected = "the brokers' addresses, 'host:9092,host2:9092'"
        # Spark gives a source in Python none of a table's options.
        expected += "" if properties else f". {TABLES}"
        raise OptionError(BOOTSTRAP_SERVERS, properties.get("bootstrap.servers"), expected)
    return properties


def used_properties(config: type[ClientConfig], properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that ``config`` has. The others are options of Kafka without a meaning here, also those of TLS
    and SASL if ``security.protocol`` asks for neither.

    Raises OptionError for a name that Kafka does not have, and for a value that ``config`` refuses.
    """
    known = [name.replace("_", ".") for name in (*config.model_fields, *SECURITY_NAMES)]
    without_meaning = _without_meaning(properties.get("security.protocol", "PLAINTEXT"))
    used: dict[str, str] = {}
    for name, value in properties.items():
        dotted = name.replace("-", ".").replace("_", ".")
        if dotted.startswith(without_meaning) and (dotted in known or dotted in KAFKA_OPTIONS):
            continue
        if dotted in known:
            used[name] = value
        elif dotted not in KAFKA_OPTIONS:
            near = difflib.get_close_matches(name, [*known, *KAFKA_OPTIONS], n=1, cutoff=0.6)
            expected = "no such option of Kafka" + (f": did you mean {KAFKA_PREFIX}{near[0]!s}?" if near else "")
            raise OptionError(KAFKA_PREFIX + name, value, expected)
    try:
        config.from_properties(used)
    except ConfigurationError as error:
        raise OptionError(f"{KAFKA_PREFIX}*", _without_secrets(used), f"other values: {error}") from error
    return used


def warn_ignored(action: str, names: Iterable[str]) -> None:
    """Log the options and columns that an action, ``read`` or ``write``, ignores: one warning for all of them, and not
    again in this process for the same ones, since a stream's writer is recreated for each micro-batch.
    """
    if told := ", ".join(sorted(names)):
        _warn_once(action, told)


@lru_cache(maxsize=1000)
def _warn_once(action: str, names: str) -> None:
    show_warnings()
    _logger.warning("spark.ignored", action=action, names=names, reason="they have no meaning here")


def _refuse_java(name: str, value: str) -> None:
    """Raise for an option that only a Java client can keep."""
    instead = JAVA_ONLY.get(name)
    if instead is None and name in _STORES and value.strip().upper() != "PEM":
        instead = "'PEM', and the certificates as files in that form: Java's keystores cannot be read here"
    if is_built_in(name.replace(".", "_"), value):
        return
    if instead is None and name.startswith(("sasl.", "ssl.")) and name.endswith(".class"):
        instead = "nothing: a Java class cannot run here"
    if instead is not None:
        raise OptionError(KAFKA_PREFIX + name, value, instead)


def _without_meaning(security_protocol: str) -> tuple[str, ...]:
    """The beginnings of the names of options that this protocol has no use for."""
    protocol = security_protocol.strip().upper()
    return (*(() if has_tls(protocol) else ("ssl.",)), *(() if has_sasl(protocol) else ("sasl.",)))


def _without_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: _shown(name, value) for name, value in properties.items()}


def _shown(name: str, value: T) -> T | str:
    """The value, unless it is a secret: by its name, even misspelt, or a private key in PEM under any name."""
    given = name.lower().removeprefix(KAFKA_PREFIX)
    names = [*KAFKA_OPTIONS, *(name.replace("_", ".") for name in (*ClientConfig.model_fields, *SECURITY_NAMES))]
    meant = difflib.get_close_matches(given, names, n=1, cutoff=0.8)
    is_secret = any(map(is_secret_name, (given, *meant))) or "PRIVATE KEY-----" in str(value)
    return HIDDEN if is_secret else value
