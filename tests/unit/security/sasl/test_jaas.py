"""Java's JAAS strings: those that are read, and those that are refused with the remedy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.security.sasl.jaas import JaasConfig, parse_jaas_config
from aiokafkapy.security.sasl.secret import Secret

from .exchanges import everything_shown_of

EVENT_HUBS = "Endpoint=sb://n.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=x="
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def parsed(text: str) -> dict[str, str]:
    return {name: value.reveal() for name, value in parse_jaas_config(Secret(text)).options.items()}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        # Confluent Cloud's and Azure Event Hubs' own
        (f'{PLAIN} required username="KEY" password="a/b+c==";', {"username": "KEY", "password": "a/b+c=="}),
        (
            f'{PLAIN} required username="$ConnectionString" password="{EVENT_HUBS}";',
            {
                "username": "$ConnectionString",
                "password": EVENT_HUBS,
            },
        ),
        # Spark's and MSK's shaded classes
        (f"kafkashaded.{PLAIN} required username=alice password='x y';", {"username": "alice", "password": "x y"}),
        (f'{PLAIN} REQUIRED\n  username = "a"\n  password = "b" ;\n', {"username": "a", "password": "b"}),
        (
            f'{PLAIN} required // comment; x="y"\n username="a" /* more;\n */ password="b";',
            {"username": "a", "password": "b"},
        ),
        (f"{PLAIN} optional;", {}),
        # Escapes
        (rf'{PLAIN} required password="a\"b\\c\td\101\'";', {"password": "a\"b\\c\tdA'"}),
        (f"{PLAIN} required password=\"a'b\" username='c\"d';", {"password": "a'b", "username": 'c"d'}),
    ],
)
def test_tokens_that_java_reads_are_read(text: str, options: dict[str, str]) -> None:
    assert parsed(text) == options


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(st.text(), st.text())
def test_any_quoted_text_is_itself(username: str, password: str) -> None:
    text = f"{PLAIN} required username={quoted(username)} password={quoted(password)};"
    assert parsed(text) == {"username": username, "password": password}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "write 'Class required name="),
        ("hunter2", "write 'Class required name="),
        (f"{PLAIN} required password=hunter2", "write 'Class required name="),
        (f'{PLAIN} required password="hunter2;', "a quote or a sign at character"),
        (f"{PLAIN} username=hunter2;", "a flag must come after PlainLoginModule: write 'required'"),
        (f"{PLAIN} required username password=hunter2;", "not all pairs"),
        (f"{PLAIN} required username = = ;", "option 1 is not a pair"),
        (f"{PLAIN} required password=hunter2 password=hunter2;", "option 2 is given twice"),
        (f"{PLAIN} required password=hunter2; {PLAIN} required;", "more than one login module"),
        (f"{PLAIN} required " + "/* " * 100_000, "at character 66 is not closed"),  # at once, not in a minute
        (f"{PLAIN} required password=hunter2 {{}};", "a quote or a sign at character"),
        ("com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;", "write sasl_kerberos_service_name"),
        ("software.amazon.msk.auth.iam.IAMLoginModule required;", "write sasl_mechanism='AWS_MSK_IAM'"),
        (
            "com.example.LoginModule required password=hunter2;",
            "'com.example.LoginModule' .* cannot be run here: write",
        ),
        ("x" * 2_000_000, "2,000,000 characters, at most 1,000,000 are read"),
    ],
)
def test_an_unreadable_input_is_reported_without_a_value(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        parse_jaas_config(Secret(text))
    assert "hunter2" not in everything_shown_of(caught.value)


@given(st.text(st.sampled_from(list("Plain.LoginModule required=;'\"\\ \n/*{}"))))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert isinstance(parse_jaas_config(Secret(text)), JaasConfig)
    except ConfigurationError as error:
        assert str(error).startswith(("sasl_jaas_config cannot be read: ", "the login module "))  # noqa: PT017


def test_an_empty_option_is_none_and_no_value_is_shown() -> None:
    config = parse_jaas_config(Secret(f'{PLAIN} required username="" password="hunter2";'))
    assert config.get("username") is None
    assert config.get("other") is None
    assert config.get("password") == Secret("hunter2")
    assert "hunter2" not in repr(config)
