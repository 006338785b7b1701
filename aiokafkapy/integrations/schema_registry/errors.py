"""The failures of a schema registry, one class for each thing that a caller can do about it.

::

    SchemaRegistryError (KafkaError)     subject, schema_id, url, status, registry_code
     ├─ RegistryUnavailableError         not reached, too busy or failing, until the time was over; retriable
     ├─ RegistryAuthenticationError      401 and 403
     ├─ SubjectNotFoundError             40401
     ├─ VersionNotFoundError             40402
     ├─ SchemaNotFoundError              40403
     ├─ IncompatibleSchemaError          409, with the registry's own reasons: ``problems``
     ├─ InvalidSchemaError               42201
     └─ SchemaRulesError                 its rules for writers, which are not run here: ``rules``

Confluent's counterpart is ``RestClientException``, which has a status, a code and a text.

Rules: an error names the subject or the id, and the registry's address without user, password or query; it shows no
data of a record. A serializer's error comes to the producer's caller as the ``__cause__`` of a SerializationError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiokafkapy.errors import KafkaError

__all__ = [
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "RegistryAuthenticationError",
    "RegistryUnavailableError",
    "SchemaNotFoundError",
    "SchemaRegistryError",
    "SchemaRulesError",
    "SubjectNotFoundError",
    "VersionNotFoundError",
    "error_for",
]

_SHOWN: Final = 2_000
"""Characters of a registry's text that an error repeats."""


class SchemaRegistryError(KafkaError):
    """A schema registry refused something, or gave an answer that cannot be read.

    ``status`` is the HTTP status, ``registry_code`` the registry's own; None where it did not answer.
    """

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
    """No registry answered in the time there was."""

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


class IncompatibleSchemaError(SchemaRegistryError):
    """The schema breaks the subject's compatibility; ``problems`` are the registry's reasons, with the fields."""

    problems: tuple[str, ...] = ()


class SchemaRulesError(SchemaRegistryError):
    """A writer by this schema has to run rules that are not run here, an encryption say; ``rules`` names them."""

    rules: tuple[str, ...] = ()


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
    problems: Sequence[str] = (),
) -> SchemaRegistryError:
    """The error for a registry's answer. ``doing`` is the question, in words that name subject or id."""
    kind = _BY_CODE.get(code or 0) or _BY_CODE.get(status) or SchemaRegistryError
    if kind is SchemaRegistryError and (status == 429 or status >= 500):
        kind = RegistryUnavailableError
    reasons = "; ".join(problems) or text
    shown = reasons if len(reasons) <= _SHOWN else f"{reasons[:_SHOWN]}..."
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
        error.problems = tuple(problems) or (text,)
    return error
