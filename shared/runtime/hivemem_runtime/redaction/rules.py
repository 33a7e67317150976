"""The rules that have a name: what each looks for.

Every pattern takes time that is linear in the text: it starts only where a run of its characters starts, and what it
repeats is bounded or followed by a character that it cannot repeat. The group with the name of the rule is replaced.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hivemem_runtime.redaction import checks

Hint = Callable[[str], object]


@dataclass(frozen=True)
class Rule:
    """One pattern. `hint` is a cheap test that every text with a find passes; `check` refuses candidates."""

    name: str
    hint: Hint
    pattern: str
    check: Callable[[str], int] | None = None


def _at(text: str) -> bool:
    return "@" in text


def _introduced(text: str) -> bool:
    lowered = text.lower()
    return "bearer" in lowered or "basic" in lowered or "secret" in lowered


def _labelled(text: str) -> bool:
    lowered = text.lower()
    return any(label in lowered for label in _PHONE_LABELS) and bool(_digits(text))


def _private_key(text: str) -> bool:
    return "PRIVATE KEY" in text


def _url(text: str) -> bool:
    return "://" in text


_token: Final = re.compile(
    "AKIA|ASIA|ABIA|ACCA|AIza|GOCSPX-|eyJ|gh[pousr]_|github_pat_|gl|hf_|npm_|pypi-AgE|[rs]k_|sk-|whsec_|xapp-|xox|ya29"
    r"|hooks\.slack"
).search
_digits: Final = re.compile(r"(?:\d[ ()./-]{0,2}){7}").search

_START: Final = r"(?<![A-Za-z0-9])"
_END: Final = r"(?![A-Za-z0-9])"
_GITLAB_KINDS: Final = "pat|dt|rtr?|oas|cbt|ptt|ft|imt|agent|soat|ffct"
_PHONE_LABELS: Final = ("cell", "fax", "handy", "mobil", "phone", "tel", "whatsapp")
_PHONE: Final = r"(?P<phone>\(?\+?[0-9](?:[ ()./-]{0,2}[0-9]){6,14})(?!\w|-\w|\.[0-9])"

PERSONAL: Final = (
    Rule(
        "email",
        _at,
        r"(?<![\w.%+-])(?!git@)(?P<email>[\w.%+-]+@(?!\dx\.)(?:[\w-]+\.)+[^\W\d_]{2,24})(?![\w-])",
    ),
    Rule(
        "iban",
        _digits,
        r"(?<![A-Za-z0-9])(?P<iban>[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,40})",
        checks.iban,
    ),
    Rule(
        "card",
        _digits,
        r"(?<![\w-])(?<![0-9]\.)(?P<card>"
        r"(?:4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|35[0-9]{2}|6(?:011|2[0-9]{2}|4[4-9][0-9]|5[0-9]{2}))"
        r"(?P<gap>[ -]?)[0-9]{4}(?P=gap)[0-9]{4}(?P=gap)[0-9]{4}(?:(?P=gap)[0-9]{3})?"
        r"|3[47][0-9]{2}(?P<gap_of_15>[ -]?)[0-9]{6}(?P=gap_of_15)[0-9]{5}"
        r"|3(?:0[0-5]|[689][0-9])[0-9](?P<gap_of_14>[ -]?)[0-9]{6}(?P=gap_of_14)[0-9]{4}"
        r")(?!\w|-\w|\.[0-9])",
        checks.card,
    ),
    Rule(
        "phone",
        _digits,
        rf"(?<![\w+./-])(?=\+[1-9]|\(?[2-9][0-9]{{2}}\)?[-. ] ?[2-9][0-9]{{2}}[-. ][0-9]{{4}}){_PHONE}",
        checks.phone,
    ),
    Rule(
        "phone",
        _labelled,
        rf"(?<![A-Za-z])(?i:{'|'.join(_PHONE_LABELS)})[A-Za-z]{{0,4}}[.:#]{{0,2}} {{0,2}}{_PHONE}",
        checks.phone,
    ),
)

SECRETS: Final = (
    Rule(
        "private_key",
        _private_key,
        r"(?P<private_key>-----BEGIN [A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----"
        r"(?s:.*?)(?:-----END [A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----|\Z))",
    ),
    Rule("url_password", _url, r"(?<=://)[^\s/?#:@]*:(?P<url_password>(?!\[redacted:)[^\s/?#@]+)@"),
    Rule("aws_key", _token, rf"{_START}(?P<aws_key>(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{{16}}){_END}"),
    Rule(
        "github_token",
        _token,
        rf"{_START}(?P<github_token>gh[pousr]_[A-Za-z0-9]{{36,}}|github_pat_[A-Za-z0-9_]{{22,}}){_END}",
    ),
    Rule("gitlab_token", _token, rf"{_START}(?P<gitlab_token>gl(?:{_GITLAB_KINDS})-[A-Za-z0-9_-]{{20,}})"),
    Rule(
        "slack_token",
        _token,
        rf"{_START}(?P<slack_token>xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{{15,}}|xapp-[0-9]-[A-Za-z0-9-]{{20,}}"
        r"|(?<=hooks\.slack\.com/services/)[A-Za-z0-9]+/[A-Za-z0-9]+/[A-Za-z0-9]{16,})",
    ),
    Rule(
        "stripe_key",
        _token,
        rf"{_START}(?P<stripe_key>[rs]k_(?:live|test)_[A-Za-z0-9]{{16,}}|whsec_[A-Za-z0-9+/=]{{24,}})",
    ),
    Rule("anthropic_key", _token, rf"{_START}(?P<anthropic_key>sk-ant-[A-Za-z0-9_-]{{24,}})"),
    Rule("openai_key", _token, rf"{_START}(?P<openai_key>sk-(?=[A-Za-z_-]{{0,64}}[0-9])[A-Za-z0-9_-]{{32,}})"),
    Rule(
        "google_key",
        _token,
        rf"{_START}(?P<google_key>AIza[A-Za-z0-9_-]{{35}}|ya29\.[A-Za-z0-9_-]{{20,}}|GOCSPX-[A-Za-z0-9_-]{{28}}){_END}",
    ),
    Rule("npm_token", _token, rf"{_START}(?P<npm_token>npm_[A-Za-z0-9]{{36}}){_END}"),
    Rule("pypi_token", _token, rf"{_START}(?P<pypi_token>pypi-AgE[A-Za-z0-9_-]{{50,}})"),
    Rule("huggingface_token", _token, rf"{_START}(?P<huggingface_token>hf_[A-Za-z0-9]{{30,}}){_END}"),
    Rule(
        "jwt",
        _token,
        r"(?<![A-Za-z0-9_-])(?P<jwt>eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
    ),
    Rule(
        "aws_secret",
        _introduced,
        r"(?i:aws_?secret_?(?:access_?)?key)[\"']?\s{0,3}[=:]\s{0,3}[\"']?"
        r"(?P<aws_secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
    ),
    Rule(
        "bearer_token",
        _introduced,
        r"(?i:\bbearer)\s{1,3}(?P<bearer_token>(?=[A-Za-z._~+/=-]*[0-9])[A-Za-z0-9._~+/=-]{16,})",
    ),
    Rule(
        "basic_login",
        _introduced,
        r"(?i:\bbasic)\s{1,3}(?P<basic_login>[A-Za-z0-9+/]{6,}={0,2})",
        checks.basic_login,
    ),
)

RULES: Final = (*SECRETS, *PERSONAL)
"""In the order in which they are applied."""

GROUPS: Final = {
    "personal": tuple(dict.fromkeys(rule.name for rule in PERSONAL)),
    "secrets": tuple(rule.name for rule in SECRETS),
}
RULE_NAMES: Final = (*GROUPS, *(name for names in GROUPS.values() for name in names))
