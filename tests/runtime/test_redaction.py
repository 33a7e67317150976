"""Redaction: texts that must go, texts that must stay, and patterns of users."""

import random
from typing import Any

import pytest

from hivemem_contracts.errors import InvalidRequest
from hivemem_runtime.redaction import Redactor

EVERYTHING = Redactor(["personal", "secrets"])
SECRET = "a1B2c3D4e5F6g7H8j9K0" * 2

GONE = [  # a text, and what is left of it
    ("mail a.b+c@example.co.uk now", "mail [redacted:email] now"),
    ("<Ann@Example.COM>.", "<[redacted:email]>."),
    ("müller@exämple.de", "[redacted:email]"),
    ("call +49 170 1234567 today", "call [redacted:phone] today"),
    ("+1 (415) 555-2671", "[redacted:phone]"),
    ("(415) 555-2671", "[redacted:phone]"),
    ("415-555-2671", "[redacted:phone]"),
    ("+4917012345678", "[redacted:phone]"),
    ("Tel.: 030 1234567", "Tel.: [redacted:phone]"),
    ("4111 1111 1111 1111", "[redacted:card]"),
    ("1,5500005555555559,12/27", "1,[redacted:card],12/27"),
    ("3782-822463-10005", "[redacted:card]"),
    ("DE89 3704 0044 0532 0130 00 AND", "[redacted:iban] AND"),
    ("GB82WEST12345698765432", "[redacted:iban]"),
    ("fr14 2004 1010 0505 0001 3m02 606", "[redacted:iban]"),
    ("AKIAIOSFODNN7EXAMPLE", "[redacted:aws_key]"),
    (
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "aws_secret_access_key = [redacted:aws_secret]",
    ),
    (f"token-ghp_{SECRET}-x", "token-[redacted:github_token]-x"),
    (f"github_pat_{SECRET}", "[redacted:github_token]"),
    (f"glpat-{SECRET}", "[redacted:gitlab_token]"),
    ("xoxb-123456789012-abcdefghijkl", "[redacted:slack_token]"),
    (f"https://hooks.slack.com/services/T0/B0/{SECRET}", "https://hooks.slack.com/services/[redacted:slack_token]"),
    (f"sk_live_{SECRET}", "[redacted:stripe_key]"),
    (f"KEY=sk-proj-{SECRET}", "KEY=[redacted:openai_key]"),
    (f"sk-ant-api03-{SECRET}", "[redacted:anthropic_key]"),
    (f"AIza{SECRET[:35]}", "[redacted:google_key]"),
    (f"npm_{SECRET[:36]}", "[redacted:npm_token]"),
    (f"pypi-AgE{SECRET}{SECRET}", "[redacted:pypi_token]"),
    (f"hf_{SECRET}", "[redacted:huggingface_token]"),
    ("Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.dozjgNryP4J3", "Bearer [redacted:jwt]"),
    (f"authorization: bearer {SECRET}", "authorization: bearer [redacted:bearer_token]"),
    ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted:basic_login]"),
    ("x -----BEGIN RSA PRIVATE KEY-----\nMI\n-----END RSA PRIVATE KEY----- y", "x [redacted:private_key] y"),
    ("-----BEGIN PRIVATE KEY-----\ncut off", "[redacted:private_key]"),
    ("postgres://app:s3cr3t@db.example.com:5432/x", "postgres://app:[redacted:url_password]@db.example.com:5432/x"),
]

STAYS = """
version 3.11.4
2026-11-19T14:20:55.123456Z
19.11.2026 14:20
2026-11-19 2026-11-20 2026-11-21
order 4711-123456
PO 4500012345
ISBN 978-3-16-148410-0
in 2026 there were 1234567890 rows
1763561234567 and 1763561234567890123
4111111111111112
4.1111111111111111 and 3.14159265358979
$1,234,567.89 or 1.234.567,89 €
+12345678 and -1234567890
1-2-3-4-5-6-7-8
192.168.100.200:8080 [19/Nov/2026:14:20:55 +0000]
00:11:22:33:44:55
lat 52.520008, lon 13.404954
550e8400-e29b-41d4-a716-446655440000
01JD4Q5Z7N8M9P0QRSTVWXYZ12
9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
git@github.com:org/repo.git
@types/node@18.0.0
icon@2x.png
user@host
http://localhost:8080/a@b
model 12 and hotel 1234567
task-scheduling-with-a-very-long-hyphenated-name-1
global-configuration-of-everything-in-one-place-1
Basic authentication is off
the bearer of bad news, internationalization
""".strip().splitlines()


@pytest.mark.parametrize(("text", "left"), GONE)
def test_personal_data_and_secrets_are_replaced(text: str, left: str) -> None:
    redacted, found = EVERYTHING.redact(text)
    assert redacted == left
    assert list(found.values()) == [1]


@pytest.mark.parametrize("text", STAYS)
def test_other_numbers_and_words_stay(text: str) -> None:
    assert EVERYTHING.redact(text) == (text, {})


def test_a_redacted_text_stays_as_it_is() -> None:
    pieces = [text for text, _ in GONE] + [*STAYS, "foo", "", " ", "-", "1"]
    redactor = Redactor(["personal", "secrets", {"name": "foo", "pattern": r"\bfoo|redacted|ema"}])
    chosen = random.Random(11)
    for _ in range(1_000):
        text = chosen.choice(["", " ", ", "]).join(chosen.choices(pieces, k=4))
        redacted, _ = redactor.redact(text)
        assert redactor.redact(redacted) == (redacted, {}), text


def test_values_keys_and_integers_are_searched() -> None:
    value = {
        "a@b.de": 1,
        "c@d.de": [{"card": 4111111111111111, "rows": 4111111111111112}, None, True, 1.5],
        "plain": "x",
    }
    left = {
        "[redacted:email]": 1,
        "[redacted:email] 2": [{"card": "[redacted:card]", "rows": 4111111111111112}, None, True, 1.5],
        "plain": "x",
    }
    assert EVERYTHING.redact(value) == (left, {"email": 2, "card": 1})
    untouched = {"plain": ["x"]}
    assert EVERYTHING.redact(untouched)[0] is untouched


def test_only_the_named_rules_apply() -> None:
    text = "a@b.de +49 170 1234567 EMP-123456"
    own = {"name": "employee", "pattern": r"EMP-\d{6}"}
    assert Redactor(["phone", own]).redact(text) == (
        "a@b.de [redacted:phone] [redacted:employee]",
        {"phone": 1, "employee": 1},
    )


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("emial", "'email'"),
        ({"name": "x"}, "{name, pattern}"),
        ({"name": "X", "pattern": "a"}, "'X'"),
        ({"name": "email", "pattern": "a"}, "already"),
        ({"name": "x", "pattern": ""}, "0 characters"),
        ({"name": "x", "pattern": "("}, "missing )"),
        ({"name": "x", "pattern": r"a(?=b)"}, "not one of RE2"),
        ({"name": "x", "pattern": r"\d*"}, "empty text"),
        ({"name": "x", "pattern": r"\b"}, "empty text"),
        ({"name": "x", "pattern": "(a{100}){100}"}, "instructions"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_by_name(rule: Any, said: str) -> None:
    with pytest.raises(InvalidRequest, match="redact") as refused:
        Redactor([rule])
    assert said in refused.value.detail
    assert refused.value.context == {"field": "redact"}


@pytest.mark.parametrize(
    "unit", ["a@", "a.", "sk-", "eyJ-", "://", "DE12 ", "4111 ", "+1 ", "bearer a ", "-----BEGIN "]
)
def test_hostile_texts_take_no_quadratic_time(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    redactor = Redactor(["personal", "secrets", {"name": "own", "pattern": "(x+x+)+y"}])
    redactor.redact(f"{text} PRIVATE KEY @ :// bearer secret tel 11111111")
