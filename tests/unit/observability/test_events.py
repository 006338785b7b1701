from __future__ import annotations

import asyncio
import io
import logging
import subprocess
import sys
import types
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import structlog

from aiokafkapy.observability import describe_error, get_logger, is_secret_name


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def errors_of(program: str) -> str:
    """The stderr of a program of its own."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr


EVENTS = """
from aiokafkapy.observability import get_logger
log = get_logger("aiokafkapy.client")
log.debug("connection.ready", node_id=1)
log.warning("connection.lost", node_id=1, error="it is gone")
"""


def test_an_application_that_sets_nothing_up_sees_warnings_and_nothing_less() -> None:
    assert errors_of(EVENTS) == 'connection.lost node_id=1 error="it is gone"\n'


def test_a_program_with_basic_config_sees_lines_with_their_values() -> None:
    program = (
        'import logging\nlogging.basicConfig(level="DEBUG", format="%(levelname)s %(name)s %(message)s")\n' + EVENTS
    )
    assert errors_of(program).splitlines() == [
        "DEBUG aiokafkapy.client connection.ready node_id=1",
        'WARNING aiokafkapy.client connection.lost node_id=1 error="it is gone"',
    ]


def test_a_program_with_dict_config_gets_our_loggers_and_fields() -> None:
    program = """
import logging.config
logging.config.dictConfig({
    "version": 1,
    "formatters": {"f": {"format": "%(asctime).0s%(message)s | %(event)s %(fields)s"}},
    "handlers": {"h": {"class": "logging.StreamHandler", "formatter": "f"}},
    "loggers": {"aiokafkapy": {"level": "WARNING", "handlers": ["h"]}},
})
"""
    line = 'connection.lost node_id=1 error="it is gone" | connection.lost ' + str(
        {"node_id": 1, "error": "it is gone"}
    )
    assert errors_of(program + EVENTS) == f"{line}\n"


def test_structlog_is_imported_with_the_first_event_that_is_seen() -> None:
    program = """
import sys
from aiokafkapy.observability import get_logger
get_logger("aiokafkapy.client").info("connection.ready")
assert "structlog" not in sys.modules
get_logger("aiokafkapy.client").error("connection.lost")
assert "structlog" in sys.modules
"""
    assert errors_of(program) == "connection.lost\n"


def test_an_event_of_one_thread_may_come_while_another_imports_structlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GIL a producer's ``close()`` failed by this."""
    monkeypatch.setitem(sys.modules, "structlog", types.ModuleType("structlog"))  # of which nothing was run yet
    get_logger("aiokafkapy.quiet").debug("connection.closed")


def test_through_logging_it_is_text_with_the_fields_beside(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "aiokafkapy")
    log = get_logger("aiokafkapy.x", client_id="c").bind(node_id=1)
    log.warning("connection.lost", error="it is gone", empty="", is_last=True)
    (record,) = caplog.records
    assert record.getMessage() == 'connection.lost client_id=c node_id=1 error="it is gone" empty= is_last=true'
    assert record.name == "aiokafkapy.x"
    assert record.event == "connection.lost"  # type: ignore[attr-defined]
    fields = {"client_id": "c", "node_id": 1, "error": "it is gone", "empty": "", "is_last": True}
    assert record.fields == fields  # type: ignore[attr-defined]


def test_an_event_stays_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("aiokafkapy.x").error("e", error='two\n"lines"')
    assert caplog.records[0].getMessage() == r'e error="two\n\"lines\""'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\r\nb", r"a\r\nb"),
        ("a\u2028b", r"a\u2028b"),
        ("a\x85b", r"a\x85b"),
        ("a\x0bb", r"a\x0bb"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\ud800b", r"a\ud800b"),
        ("a b\r", r'"a b\r"'),
        ("größer 🙂", '"größer 🙂"'),
    ],
)
def test_line_breaks_of_any_kind_and_a_terminal_s_commands_are_escaped(
    caplog: pytest.LogCaptureFixture, value: str, shown: str
) -> None:
    get_logger("aiokafkapy.x").error("e", client_id=value)
    assert caplog.records[0].getMessage() == f"e client_id={shown}"
    assert caplog.records[0].fields == {"client_id": value}  # type: ignore[attr-defined]


def test_a_name_with_a_space_costs_no_event_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    structlog.contextvars.bind_contextvars(**{"request id\n": 5})
    get_logger("aiokafkapy.x").error("e", node_id=1)
    assert caplog.records[0].getMessage() == "e node_id=1 request_id_=5"
    assert caplog.records[0].exc_info is None


def test_the_exception_of_an_event_is_logging_s(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("broken")
    get_logger("aiokafkapy.x").error("e", exc_info=error)
    assert caplog.records[0].exc_info == (ValueError, error, None)
    assert caplog.records[0].getMessage() == "e"


def test_percent_signs_are_harmless(caplog: pytest.LogCaptureFixture) -> None:
    get_logger("aiokafkapy.x").error("e", text="100 %s %d")
    assert "100 %s %d" in caplog.text


def test_levels_below_the_loggers_cost_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "aiokafkapy")

    class Explosive:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    get_logger("aiokafkapy.x").debug("e", value=Explosive())
    get_logger("aiokafkapy.x").info("e", value=Explosive())
    assert caplog.records == []


def test_values_bound_to_the_application_s_context_are_in_our_events(caplog: pytest.LogCaptureFixture) -> None:
    structlog.contextvars.bind_contextvars(request_id="r-1", api_token="t-1")
    get_logger("aiokafkapy.x").error("e", a=1)
    assert caplog.records[0].fields == {"request_id": "r-1", "api_token": "<hidden>", "a": 1}  # type: ignore[attr-defined]
    assert "request_id=r-1" in caplog.records[0].getMessage()


def test_an_application_with_structlog_gets_structure() -> None:
    seen: list[dict[str, object]] = []

    def keep(logger: object, method: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
        seen.append(dict(event))
        raise structlog.DropEvent

    structlog.contextvars.bind_contextvars(request_id="r-1")
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, keep])
    get_logger("aiokafkapy.x", client_id="c").warning("connection.lost", node_id=1, password="p")
    assert seen == [
        {
            "event": "connection.lost",
            "level": "warning",
            "request_id": "r-1",
            "client_id": "c",
            "node_id": 1,
            "password": "<hidden>",
        }
    ]


def test_the_level_of_an_application_s_structlog_counts_and_its_json_is_written() -> None:
    stream = io.StringIO()
    structlog.configure(
        processors=[structlog.processors.JSONRenderer(sort_keys=True)],
        logger_factory=structlog.PrintLoggerFactory(stream),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    get_logger("aiokafkapy.x").info("an.event", a=1)
    get_logger("aiokafkapy.x").debug("another", a=1)
    assert stream.getvalue() == '{"a": 1, "event": "an.event"}\n'


def test_structlog_over_logging_is_honoured(caplog: pytest.LogCaptureFixture) -> None:
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, structlog.processors.JSONRenderer(sort_keys=True)],
        logger_factory=logging.getLogger,
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    get_logger("aiokafkapy.x").info("another")
    get_logger("aiokafkapy.x").error("an.event", a=1)
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("aiokafkapy.x", '{"a": 1, "event": "an.event"}')
    ]


async def test_an_asynchronous_structlog_logger_is_used_without_waiting(caplog: pytest.LogCaptureFixture) -> None:
    structlog.configure(
        processors=[structlog.processors.JSONRenderer()],
        logger_factory=logging.getLogger,
        wrapper_class=structlog.stdlib.AsyncBoundLogger,
    )
    get_logger("aiokafkapy.x").error("an.event")
    assert [record.getMessage() for record in caplog.records] == ['{"event": "an.event"}']


def test_an_error_while_an_event_is_written_ends_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    get_logger("aiokafkapy.x").error("an.event", value=Broken())

    def refuse(logger: object, method: str, event: MutableMapping[str, Any]) -> str:
        raise KeyError("a field of theirs")

    structlog.configure(processors=[refuse])
    get_logger("aiokafkapy.x").error("another")
    assert [record.getMessage() for record in caplog.records] == [
        "an.event (its fields could not be logged)",
        "another (its fields could not be logged)",
    ]
    assert all(record.exc_info for record in caplog.records)


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "sasl_jaas_config",
        "ssl_key_password",
        "Token",
        "client_secret",
        "ssl.keystore.key",
        "proxy.url",
        "sasl.oauthbearer.extensions",
    ],
)
def test_secrets_are_never_shown(name: str, caplog: pytest.LogCaptureFixture) -> None:
    get_logger("aiokafkapy.x").error("e", **{name: "hunter2"})
    assert "hunter2" not in caplog.text
    assert "hunter2" not in str(caplog.records[0].__dict__)


def test_names_that_are_not_secret() -> None:
    assert not any(map(is_secret_name, ["client_id", "bootstrap_servers", "key", "node_id"]))


def test_importing_configures_nothing() -> None:
    program = """
import logging, structlog, aiokafkapy.observability.rendering
assert not structlog.is_configured()
assert logging.getLogger().handlers == logging.getLogger("aiokafkapy").handlers == []
"""
    assert errors_of(program) == ""


@pytest.mark.parametrize("failure", [LookupError, asyncio.CancelledError])
def test_an_error_that_cannot_be_printed_is_still_described(failure: type[BaseException]) -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise failure

    assert describe_error(Hostile()) == "Hostile: its text cannot be made"
    assert describe_error(KeyError("a")) == "KeyError: 'a'"
