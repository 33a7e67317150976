"""Rules about which fields of a request go together, as keywords of JSON Schema. `null` is the same as a missing field.

Validators and workers enforce these rules; the keywords only say them in the schemas. They are all below `not`, which
generators of types ignore: below `anyOf` they would turn every body into a union.
"""

from collections.abc import Sequence
from typing import Any, Final

_NULL: Final = {"type": "null"}
_GIVEN: Final = {"not": _NULL}
_TRUE: Final = {"const": True}


def combination(given: Sequence[str] = (), missing: Sequence[str] = (), true: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of requests that have all of some fields, none of others, and `true` in others."""
    fields = dict.fromkeys(given, _GIVEN) | dict.fromkeys(missing, _NULL) | dict.fromkeys(true, _TRUE)
    required = sorted([*given, *true])
    return {"properties": fields, "required": required} if required else {"properties": fields}


def refuses(*combinations: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords that refuse each of the combinations."""
    return {"not": combinations[0] if len(combinations) == 1 else {"anyOf": list(combinations)}}
