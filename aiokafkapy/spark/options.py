"""The options of a query: looked up in any case, checked, and those of Kafka translated.

Owns what reading and writing share: parsing of values, ``OptionError``, and the way from ``kafka.*`` to the properties
of our configurations. Spark's counterparts are ``KafkaSourceProvider`` and ``KafkaConfigUpdater``. It knows neither
Spark nor asyncio.

Rules:

- Everything is checked on the driver, before a task runs; an error says option, value, and what is expected.
- An option that nobody knows is an error that names the nearest one: a misspelt option must not be left out silently.
- Names are looked up in lower case, since Spark hands them on so; Kafka's own names are in lower case anyway.
- What only a Java client can do (JAAS, keystores in JKS, names of classes) is refused, with what to write instead.
- No message shows a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NoReturn

from ..client.config import ClientConfig
from ..errors import ConfigurationError
from ..observability import is_secret_name

__all__ = [
    "OptionError",
    "Options",
    "check_properties",
    "kafka_properties",
    "parse_flag",
    "parse_number",
]

KAFKA_PREFIX: Final = "kafka."
BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"

_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname"})
"""What Spark itself reads, and hands on to us with the rest."""

# Options of Kafka's Java client that have no meaning outside of a JVM, or are fixed here; and what to write instead.
_JAVA_ONLY: Final[Mapping[str, str]] = {
    "key.serializer": "nothing: keys are sent as the bytes of their column",
    "value.serializer": "nothing: values are sent as the bytes of their column",
    "key.deserializer": "nothing: keys are read as bytes, cast the column instead",
    "value.deserializer": "nothing: values are read as bytes, cast the column instead",
    "partitioner.class": "nothing for Kafka's default partitioner, or a column 'partition'",
    "interceptor.classes": "nothing: a Java class cannot run here, use a column expression instead",
    "metric.reporters": "nothing: a Java class cannot run here",
    "security.providers": "nothing: a Java class cannot run here",
    "config.providers": "nothing: a Java class cannot run here, put the value itself",
    "auto.include.jmx.reporter": "nothing: there is no JMX here",
    "sasl.jaas.config": "kafka.sasl.mechanism, kafka.sasl.username and kafka.sasl.password",
    "sasl.kerberos.kinit.cmd": "nothing: run kinit before the job",
    "ssl.engine.factory.class": "nothing: Python's ssl module is used",
    "ssl.provider": "nothing: Python's ssl module is used",
    "ssl.keymanager.algorithm": "nothing: Python's ssl module is used",
    "ssl.trustmanager.algorithm": "nothing: Python's ssl module is used",
    "ssl.secure.random.implementation": "nothing: Python's ssl module is used",
}
_STORES: Final = ("ssl.keystore.type", "ssl.truststore.type")


class OptionError(ValueError):
    """An option of a query is missing, unknown, or has a value that cannot be meant."""

    def __init__(self, option: str, value: object, expected: str) -> None:
        self.option = option
        self.value = value
        self.expected = expected
        if value is None:
            text = f"option {option!r} is missing: expected {expected}"
        else:
            shown = "<hidden>" if is_secret_name(option) else repr(value)
            text = f"option {option!r} is {shown}: expected {expected}"
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.option, self.value, self.expected)


class Options(Mapping[str, str]):
    """A query's options, in any case: ``options["startingOffsets"]``. ``known`` are the names that ours may have;
    those beginning with ``kafka.`` are not looked at here. Raises OptionError for others, also for those in
    ``elsewhere``, with what is said there.
    """

    def __init__(
        self, options: Mapping[str, str], known: Iterable[str], elsewhere: Mapping[str, str] | None = None
    ) -> None:
        self._spelling = {name.lower(): name for name in known}
        self._values: dict[str, str] = {}
        hints = {name.lower(): hint for name, hint in (elsewhere or {}).items()}
        for name, value in options.items():
            lowered = name.strip().lower()
            if lowered in self._spelling or lowered.startswith(KAFKA_PREFIX):
                self._values[lowered] = str(value)
            elif lowered not in _OF_SPARK:
                self._refuse(lowered, str(value), hints)

    def text(self, name: str) -> str | None:
        """The value without the space around it; None when it is not given. Raises OptionError when it is empty."""
        value = self.get(name)
        if value is None:
            return None
        value = value.strip()
        if not value:
            raise OptionError(self._spelled(name), self[name], "a value, or leave the option out")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
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

    def _refuse(self, name: str, value: str, hints: Mapping[str, str]) -> NoReturn:
        if name in hints:
            raise OptionError(name, value, hints[name])
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


def kafka_properties(options: Mapping[str, str]) -> dict[str, str]:
    """The options ``kafka.*`` under Kafka's own names. Raises OptionError without ``kafka.bootstrap.servers``, and for
    what only a Java client can do.
    """
    properties: dict[str, str] = {}
    for option, value in options.items():
        lowered = option.lower()
        if not lowered.startswith(KAFKA_PREFIX):
            continue
        name = lowered.removeprefix(KAFKA_PREFIX)
        _refuse_java(name, value)
        properties[name] = value
    if not properties.get("bootstrap.servers", "").strip():
        raise OptionError(
            BOOTSTRAP_SERVERS, properties.get("bootstrap.servers"), "the brokers' addresses, 'host:9092,host2:9092'"
        )
    return properties


def check_properties(config: type[ClientConfig], properties: Mapping[str, str]) -> None:
    """Make the configuration that a task will make. Raises OptionError for a name or a value it refuses."""
    known = [field.replace("_", ".") for field in config.model_fields]
    for name, value in properties.items():
        if name.replace("-", ".").replace("_", ".") not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            expected = "no such option of Kafka" + (f": did you mean {KAFKA_PREFIX}{near[0]!s}?" if near else "")
            raise OptionError(KAFKA_PREFIX + name, value, expected)
    try:
        config.from_properties(properties)
    except ConfigurationError as error:
        raise OptionError(f"{KAFKA_PREFIX}*", _without_secrets(properties), f"other values: {error}") from error


def _refuse_java(name: str, value: str) -> None:
    """Raise for what has a meaning only in a JVM."""
    instead = _JAVA_ONLY.get(name)
    if instead is None and name in _STORES and value.strip().upper() != "PEM":
        instead = "'PEM', and the certificates as files in that form: Java's keystores cannot be read here"
    if instead is None and name.endswith((".class", ".classes")):
        instead = "nothing: a Java class cannot run here"
    if instead is not None:
        raise OptionError(KAFKA_PREFIX + name, value, instead)


def _without_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: "<hidden>" if is_secret_name(name) else value for name, value in properties.items()}
