"""Distinguished names as Java writes them, and the rules that make principals of them."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.principals import PrincipalRules, distinguished_name
from aiokafkapy.errors import ConfigurationError

# As in Kafka's SslPrincipalMapperTest.
RULES = ", ".join(  # noqa: FLY002 - one rule a line
    [
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "User:duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "User:duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "User:DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "User:DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "User:OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_fits_counts(name: str, principal: str) -> None:
    assert PrincipalRules(RULES).principal(name) == principal


def test_a_name_that_no_rule_fits_has_no_principal() -> None:
    assert PrincipalRules("RULE:^CN=(.*)$/$1/").principal("OU=x") is None
    assert PrincipalRules("RULE:CN=x/y/").principal("CN=xx") is None, "a pattern must fit the whole name"


def test_a_slash_or_a_backslash_can_be_written() -> None:
    assert PrincipalRules(r"RULE:CN=(\w+)\/(\w+)/$2:\d/").principal("CN=a/b") == "User:b:\\d"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("deny", "'deny' is not a rule"),
        ("RULE:^CN=(.*)$", "is not a rule"),
        ("RULE:^CN=(.*)$/$1/X", "is not a rule"),
        ("DEFAULT RULE:a/b/", "is not a rule"),
        ("RULE:^CN=(.*$/$1/", "is not a regular expression"),
        ("RULE:^CN=(.*)$/$2/", r"\$2 is more than the pattern.s 1 groups"),
    ],
)
def test_a_text_that_is_not_a_rule_is_refused(rules: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        PrincipalRules(rules)


def test_a_subject_is_written_from_its_end_and_escaped() -> None:
    subject = ((("countryName", "DE"),), (("organizationName", "A, B & C"),), (("commonName", "#alice "),))
    assert distinguished_name(subject) == r"CN=\#alice\ ,O=A\, B & C,C=DE"
    pair = ((("commonName", "a"), ("userId", "b")),)
    assert distinguished_name(pair) == "CN=a+UID=b"
    assert distinguished_name(((("emailAddress", "a@b"),),)) == "1.2.840.113549.1.9.1=#1603614062"
    assert distinguished_name(()) == ""
