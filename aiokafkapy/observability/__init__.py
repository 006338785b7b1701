"""Events for people and machines: structured, and rate-limited in outages.

Turns an event's name and fields into a log line. ``events`` has the loggers, ``rate_limit`` keeps an outage from
filling the log, ``rendering`` is the part for structlog, imported with the first event that is not filtered out, and
``programs`` configures logging for our own programs. Kafka's counterpart is slf4j with the ``LogContext`` of a client.

Rules:

- The package configures neither structlog nor logging. Where the application configured structlog, events go through
  its processors. Otherwise structlog renders them as one line of text, ``event key=value …``, with the variables of
  ``structlog.contextvars``, for the standard loggers ``aiokafkapy.*``; ``fields`` of the log record has the values.
- There is no NullHandler: where nobody configured anything, logging's last resort writes warnings and errors to stderr.
- Event names are stable; they are in the table below. Nothing is logged per record or per request.
- A value whose name says that it is a secret is never shown.
- An error while an event is written, in a processor of the application or in a value's ``__str__``, ends here.

============================  =======  =================================================================================
event                         level    when; fields
============================  =======  =================================================================================
core.interpreted              debug    the first producer starts, and the core is not compiled; hint
connection.ready              debug    a broker can be used; info after a failure was logged; node_id, address,
                                       suppressed
connection.closed             debug    a connection ended with nothing in flight, or by us; node_id, address, reason
connection.failed             warning  an attempt to connect failed; node_id, address, error
connection.lost               warning  a connection ended with requests in flight; node_id, address, error, in_flight
connection.authentication     error    the broker refused the credentials; node_id, error
connection.api_versions       warning  the broker did not say what it speaks; node_id, error
protocol.violation            error    bytes that are not what the protocol says; node_id, address, error
request.timed_out             warning  no answer in time, the connection is closed; node_id, address, api, seconds
request.callback_failed       error    a callback raised: a bug; api
metadata.updated              debug    an answer was taken; nodes, topics, partial
metadata.failed               warning  an answer did not come or could not be used; error
metadata.topic_errors         warning  an answer has errors for topics, info when they may pass; count, errors
metadata.no_answer            warning  no broker has answered for a second or two; addresses, seconds, error
metadata.rebootstrap          warning  start again from the bootstrap addresses; reason, addresses
tls.host_name_unchecked       warning  a client was told not to compare a broker's name with its certificate; hint
tls.reload_failed             warning  changed files of certificates cannot be used, the old ones stay in use; error
tls.reloaded                  info     changed files of certificates are used from the next connection on; files
sasl.login_failed             warning  the next token could not be got, the present one is used; error, cause,
                                       seconds_left
============================  =======  =================================================================================

A limited event has ``suppressed`` when some were kept back before it. The producer's events are listed in ``producer``.
"""

from __future__ import annotations

from .events import EventLogger, get_logger, is_secret_name
from .rate_limit import RateLimitedLogger

__all__ = ["EventLogger", "RateLimitedLogger", "get_logger", "is_secret_name"]
