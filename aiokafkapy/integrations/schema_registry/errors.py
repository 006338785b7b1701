"""The failures of a schema registry, one class for each possible reaction of a caller.

::

    SchemaRegistryError (KafkaError)     subject, schema_id, url, status, registry_code
     ├─ RegistryUnavailableError         not reached, too busy or failing, until the time was over; retriable
     ├─ RegistryAuthenticationError      401 and 403
     ├─ SubjectNotFoundError             40401
     ├─ VersionNotFoundError             40402
     ├─ SchemaNotFoundError              40403
     ├─ IncompatibleSchemaError          409, with the registry's own reasons: ``problems``
     ├─ InvalidSchemaError               42201
     ├─ KeyManagementError               a key management was not reached; retriable
     └─ SchemaRulesError                 rules of its data contract that cannot be run: ``rules``

    RuleFailedError (SerializationError) a rule refused a message: ``rule``, ``mode``, ``subject``

Confluent's counterpart is ``RestClientException``, which has a status, a code and a text.

Rules: an error names the subject or the id, and the registry's address without user, password or query; it shows no
data of a record. The producer's caller gets a serializer's error as the ``__cause__`` of a SerializationError.
"""

from __future__ import annotations

from typing import Final

from ...errors import KafkaError, SerializationError

__all__ = [
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "KeyManagementError",
    "RegistryAuthenticationError",
    "RegistryUnavailableError",
    "RuleFailedError",
    "SchemaNotFoundError",
    "SchemaRegistryError",
    "SchemaRulesError",
    "SubjectNotFoundError",
    "VersionNotFoundError",
    "error_for",
]

_SHOWN: Final = 2_000
"""The most characters of a registry's text in an error."""


class SchemaRegistryError(KafkaError):
    """A schema registry refused something, or gave an answer that cannot be read.

    ``status`` is the HTTP status, ``registry_code`` the registry's own; both are None if it did not answer.
    """

    refuses_schema: bool = False
    """True when a record of the same schema would be refused again, so that a dead letter is made."""

    def __init__(
        self,
        message: str = "",
        *,
        subject: str | None = None,
        schema_id: int | str | None = None,
        url: str | None = None,
        status: int | None = None,
        registry_code: int | None = None,
        topic: str | None = None,
    ) -> None:
        super().__init__(message, topic=topic)
        self.subject = subject
        self.schema_id = schema_id
        self.url = url
        self.status = status
        self.registry_code = registry_code


class RegistryUnavailableError(SchemaRegistryError):
    """No registry answered in time."""

    retriable = True
    retry_after: float = 0.0
    """Seconds that a registry asked to wait (``Retry-After``)."""


class RegistryAuthenticationError(SchemaRegistryError):
    """The registry refused the credentials, or their rights."""


class SubjectNotFoundError(SchemaRegistryError):
    """The registry has no such subject."""


class VersionNotFoundError(SchemaRegistryError):
    """The subject has no such version."""


class SchemaNotFoundError(SchemaRegistryError):
    """The registry has no such schema, or not under this subject."""


class InvalidSchemaError(SchemaRegistryError):
    """The registry cannot read the schema."""

    refuses_schema = True


class IncompatibleSchemaError(SchemaRegistryError):
    """The schema breaks the subject's compatibility; ``problems`` are the registry's reasons, with the fields."""

    refuses_schema = True
    problems: tuple[str, ...] = ()


class SchemaRulesError(SchemaRegistryError):
    """Rules of the schema cannot be run: their type is unknown, or a dependency is missing. ``rules`` names them."""

    rules: tuple[str, ...] = ()


class KeyManagementError(SchemaRegistryError):
    """A key management was not reached, so that a field cannot be encrypted or decrypted; it may work later."""

    retriable = True


class RuleFailedError(SerializationError):
    """A rule of the data contract refused a message: a condition that is not met, or an expression that failed.

    ``is_dead_letter`` is true if the rule's action is ``DLQ``; ``dead_letter_topic`` is its topic, None leaves that to
    the dead-letter policy.
    """

    is_dead_letter: bool = False
    dead_letter_topic: str | None = None

    def __init__(self, message: str = "", *, rule: str = "", mode: str = "", subject: str = "") -> None:
        super().__init__(message)
        self.rule = rule
        self.mode = mode
        self.subject = subject

    @property
    def dead_letter_headers(self) -> tuple[tuple[str, bytes], ...]:
        """The headers of a dead letter that describe the rule, by Confluent's names (``__rule.name``, …): readers leave
        out the rule of this name.
        """
        about = {"name": self.rule, "mode": self.mode, "subject": self.subject, "exception": str(self)}
        return tuple((f"__rule.{name}", one.encode(errors="replace")) for name, one in about.items())


_BY_CODE: Final[dict[int, type[SchemaRegistryError]]] = {
    40401: SubjectNotFoundError,
    40402: VersionNotFoundError,
    40403: SchemaNotFoundError,
    42201: InvalidSchemaError,
    409: IncompatibleSchemaError,
    401: RegistryAuthenticationError,
    403: RegistryAuthenticationError,
}


def error_for(
    status: int,
    code: int | None,
    text: str,
    *,
    doing: str,
    url: str,
    subject: str | None = None,
    schema_id: int | str | None = None,
) -> SchemaRegistryError:
    """The error for a registry's answer. ``doing`` is the question, in words that name subject or id."""
    kind = _BY_CODE.get(code or 0) or _BY_CODE.get(status) or SchemaRegistryError
    if kind is SchemaRegistryError and (status in (408, 429) or status >= 500):
        kind = RegistryUnavailableError
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    number = status if code is None or code == status else f"{status}, {code}"
    error = kind(
        f"{doing}: the registry {url} answered {number}: {shown}",
        subject=subject,
        schema_id=schema_id,
        url=url,
        status=status,
        registry_code=code,
    )
    if isinstance(error, IncompatibleSchemaError):
        error.problems = (text,)
    return error
