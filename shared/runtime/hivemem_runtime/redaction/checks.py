"""Checks that tell the number of a card, an account or a phone, or a login, from other text of its form.

Each returns how many characters of a candidate, from its start, are what the rule looks for; 0 refuses it.
"""

import base64
import binascii
import re
from itertools import islice
from typing import Final

_BY_LENGTH: Final = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
IBAN_LENGTHS: Final = {country: length for length, countries in _BY_LENGTH.items() for country in countries.split()}

_ALPHANUMERIC: Final = re.compile(r"[A-Za-z0-9]")
_LEAST_BARE_DIGITS: Final = 10


def card(candidate: str) -> int:
    """Check the Luhn digit."""
    digits = [int(digit) for digit in reversed(candidate) if digit.isdigit()]
    total = sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return len(candidate) if total % 10 == 0 else 0


def iban(candidate: str) -> int:
    """Check the length for the country, and the remainder modulo 97. A word after the number does not count."""
    length = IBAN_LENGTHS.get(candidate[:2].upper())
    if length is None:
        return 0
    places = [match.start() for match in islice(_ALPHANUMERIC.finditer(candidate), length)]
    end = places[-1] + 1
    if len(places) < length or candidate[end : end + 1].isalnum():
        return 0
    compact = "".join(candidate[place] for place in places)
    number = int("".join(str(int(character, 36)) for character in compact[4:] + compact[:4]))
    return end if number % 97 == 1 else 0


def phone(candidate: str) -> int:
    """Check that a number without any break is long enough not to be a plain number with its sign."""
    bare = candidate[1:].isdigit() and candidate.startswith("+")
    return 0 if bare and len(candidate) <= _LEAST_BARE_DIGITS else len(candidate)


def basic_login(candidate: str) -> int:
    """Check that a word decodes to a name and a password."""
    bare = candidate.rstrip("=")
    try:
        decoded = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return 0
    return len(candidate) if ":" in decoded and decoded.isprintable() else 0
