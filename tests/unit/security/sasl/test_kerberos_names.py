"""Principals and rules as Java's ``KerberosNameTest`` and ``KerberosRuleTest`` have them, and odd ones."""

from __future__ import annotations

import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.security.sasl.kerberos_names import LocalNameRules

JAVAS_RULES = [
    r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g",
    r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g",
    "DEFAULT",
]


def name_of(principal: str, *rules: str) -> str | None:
    return LocalNameRules(rules or ("DEFAULT",)).local_name(principal, "REALM.COM")


@pytest.mark.parametrize("principal", ["alice@REALM.COM", "alice/laptop@REALM.COM"])
def test_by_default_the_first_part_of_a_principal_of_the_own_realm_is_the_user(principal: str) -> None:
    assert name_of(principal) == "alice"


@pytest.mark.parametrize(
    "principal", ["alice@THERE", "alice", "@REALM.COM", r"a\@b@REALM.COM", "a/b/c@REALM.COM", "alice@realm.com", ""]
)
def test_any_other_principal_is_nobody(principal: str) -> None:
    assert name_of(principal) is None


@pytest.mark.parametrize(
    ("principal", "name"),
    [
        ("App.service-name/example.com@REALM.COM", "service-name"),
        ("App.service-name@REALM.COM", "service-name"),
        ("user/host@REALM.COM", "user"),
        ("App.other@ELSEWHERE", "other"),
        ("user@ELSEWHERE", None),
    ],
)
def test_the_first_rule_that_fits_counts(principal: str, name: str | None) -> None:
    assert name_of(principal, *JAVAS_RULES) == name


@pytest.mark.parametrize(
    ("rule", "principal", "name"),
    [
        (r"RULE:[1:$1]/L", "User@REALM.COM", "user"),
        (r"RULE:[2:$1](Test.*)s/ABC///L", "Test.User/ABC@REALM.COM", "test.user"),
        (r"RULE:[2:$1]/U", "Test/host@REALM.COM", "TEST"),
        (r"RULE:[1:$1](.*)s/a/b/", "banana@REALM.COM", "bbnana"),
        (r"RULE:[1:$1](.*)s/a/b/g", "banana@REALM.COM", "bbnbnb"),
        (r"RULE:[1:$1](.*)s/a/b/gU", "banana@REALM.COM", "BBNBNB"),
        (r"RULE:[2:$2.$1.$0]", "web/host@REALM.COM", "host.web.REALM.COM"),
        (r"RULE:[1:$1@$0](.*@TRUSTED)s/@.*//", "carol@TRUSTED", "carol"),
        (r"RULE:[1:$1](carol)", "caroline@REALM.COM", None),
        (r"RULE:[1:$1@$0]", "carol@REALM.COM", None),
        (r"RULE:[2:$1]", "carol@REALM.COM", None),
        (r"RULE:[1:$1](.*)s/.*//", "carol@REALM.COM", None),
    ],
)
def test_a_rule_makes_a_name_or_none(rule: str, principal: str, name: str | None) -> None:
    assert name_of(principal, rule) == name


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("default", "'default' is not a rule; write DEFAULT, or RULE:"),
        ("", "'' is not a rule"),
        ("RULE:[1:$1", "is not a rule"),
        ("RULE:[1:$1](*)", "is not a regular expression"),
        ("RULE:[1:$2]", r"\$2 is more than the principal's 1 parts"),
        ("RULE:[3:$1]", "for principals with 3 parts; they have 1 or 2"),
        ("RULE:[1:$1](.*)s/(a)/$2/", r"\$2 is more than the pattern's 1 groups"),
    ],
)
def test_a_text_that_is_not_a_rule_is_shown(rule: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=f"sasl_kerberos_principal_to_local_rules.*{sentence}"):
        LocalNameRules(["DEFAULT", rule])
