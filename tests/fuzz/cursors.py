"""Forged cursors: real ones with modified parts, and plain texts."""

import base64
import binascii
import json
from random import Random
from typing import Any

from .odd import TEXTS, odd_value


def forged(cursor: str, random: Random) -> Any:
    kind = random.randrange(5)
    if kind == 0:
        return random.choice(TEXTS)
    if kind == 1:
        place = random.randrange(len(cursor))
        return cursor[:place] + random.choice("AZaz09-_=+/. \0é") + cursor[place + 1 :]
    try:
        parts = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError):
        parts = None
    if not isinstance(parts, list):
        return cursor[: random.randrange(len(cursor))]
    changed: list[Any] = parts  # pyright: ignore[reportUnknownVariableType]  # whatever JSON holds
    place = random.randrange(len(changed))
    if kind == 2:
        del changed[place]
    else:
        # A cursor begins with the name and the mark of its list; the server trusts the part after them most.
        changed[max(place, min(2, len(changed) - 1))] = odd_value(random)
    return base64.urlsafe_b64encode(json.dumps(changed).encode()).rstrip(b"=").decode()
