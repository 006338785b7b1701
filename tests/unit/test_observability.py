from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from aiokafkapy import observability
from aiokafkapy.observability import RateLimitedLogger, get_logger, is_secret_name


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


def test_an_application_that_sets_nothing_up_hears_nothing():
    code = (
        "from aiokafkapy.observability import get_logger\n"
        "get_logger('aiokafkapy.x').error('some.event', a=1)\n"
        "import logging; assert logging.getLogger().handlers == []"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_through_logging_it_is_text_with_the_fields_beside(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "aiokafkapy")
    log = get_logger("aiokafkapy.x", client_id="c").bind(node_id=1)
    log.warning("connection.lost", error="it is gone", empty="")
    (record,) = caplog.records
    assert record.getMessage() == 'connection.lost client_id=c node_id=1 error="it is gone" empty=""'
    assert record.name == "aiokafkapy.x"
    assert record.event == "connection.lost"  # type: ignore[attr-defined]
    assert record.fields == {"client_id": "c", "node_id": 1, "error": "it is gone", "empty": ""}  # type: ignore[attr-defined]


def test_percent_signs_are_harmless(caplog: pytest.LogCaptureFixture):
    get_logger("aiokafkapy.x").error("e", text="100 %s %d")
    assert "100 %s %d" in caplog.text


def test_levels_below_the_loggers_cost_nothing(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING, "aiokafkapy")

    class Explosive:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    get_logger("aiokafkapy.x").debug("e", value=Explosive())
    get_logger("aiokafkapy.x").info("e", value=Explosive())
    assert caplog.records == []


def test_an_application_with_structlog_gets_structure():
    seen: list[dict[str, object]] = []

    def keep(logger: object, method: str, event: dict[str, object]) -> dict[str, object]:
        seen.append(dict(event))
        raise structlog.DropEvent

    structlog.configure(processors=[structlog.processors.add_log_level, keep])
    get_logger("aiokafkapy.x", client_id="c").warning("connection.lost", node_id=1, password="p")
    assert seen == [
        {"event": "connection.lost", "level": "warning", "client_id": "c", "node_id": 1, "password": "<hidden>"}
    ]


def test_structlog_over_logging_works_too():
    stream = io.StringIO()
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, structlog.processors.JSONRenderer(sort_keys=True)],
        logger_factory=lambda *names: structlog.PrintLogger(stream),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    structlog.configure(processors=[structlog.processors.JSONRenderer(sort_keys=True)])
    get_logger("aiokafkapy.x").info("an.event", a=1)
    get_logger("aiokafkapy.x").debug("another", a=1)
    assert stream.getvalue() == '{"a": 1, "event": "an.event"}\n'


@pytest.mark.parametrize("name", ["password", "sasl_jaas_config", "ssl_key_password", "Token", "client_secret"])
def test_secrets_are_never_shown(name: str, caplog: pytest.LogCaptureFixture):
    get_logger("aiokafkapy.x").error("e", **{name: "hunter2"})
    assert "hunter2" not in caplog.text
    assert "hunter2" not in str(caplog.records[0].__dict__)


def test_names_that_are_no_secrets():
    assert not any(map(is_secret_name, ["client_id", "bootstrap_servers", "key", "node_id"]))


def test_importing_configures_nothing():
    assert not structlog.is_configured()


class TestRateLimit:
    @pytest.fixture
    def limited(self, caplog: pytest.LogCaptureFixture) -> RateLimitedLogger:
        caplog.set_level(logging.DEBUG, "aiokafkapy")
        return RateLimitedLogger(get_logger("aiokafkapy.x"))

    def test_about_ten_lines_a_minute_for_each_key(self, limited: RateLimitedLogger):
        for key in ("a", "b"):
            shown = sum(limited.log(key, tick / 100, logging.WARNING, "e") for tick in range(6_000))
            assert 8 <= shown <= 11
        shown = sum(limited.log("a", 60 + tick / 10, logging.WARNING, "e") for tick in range(36_000))
        assert 400 <= shown <= 650

    def test_the_next_line_says_how_many_were_kept_back(
        self, limited: RateLimitedLogger, caplog: pytest.LogCaptureFixture
    ):
        for _ in range(10):
            limited.log("a", 0.0, logging.WARNING, "e")
        assert limited.suppressed("a") == 7
        assert limited.log("a", 8.0, logging.WARNING, "e")
        assert caplog.records[-1].fields == {"suppressed": 7}  # type: ignore[attr-defined]
        assert limited.suppressed("a") == 0

    def test_a_settled_key_starts_again(self, limited: RateLimitedLogger):
        for _ in range(5):
            limited.log("a", 0.0, logging.WARNING, "e")
        assert limited.settle("a") == 2
        assert limited.settle("a") is None
        assert limited.log("a", 0.0, logging.WARNING, "e")

    def test_it_forgets_the_keys_silent_for_longest(self, limited: RateLimitedLogger, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(observability, "_MAX_KEYS", 3)
        for key in range(5):
            limited.log(key, 0.0, logging.DEBUG, "e")
            limited.log(0, 0.0, logging.DEBUG, "e")
        assert len(limited._budgets) == 3
        assert limited.suppressed(0) > 0
