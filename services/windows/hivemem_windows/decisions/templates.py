"""Key templates: text with variables of a context, and three filters. There are no expressions and no other lookups."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

import pydantic

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import Id

FIELD: Final = "resource.key"
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
_PATH: Final = re.compile(rf"{_NAME}(?:\.{_NAME}){{0,7}}")
_FILTER: Final = re.compile(r"(lower|slug|default)(?:\(\s*(?:'([^']*)'|\"([^\"]*)\")\s*\))?")
_OTHERS: Final = re.compile(r"[^\w]+")
_KEY: Final = pydantic.TypeAdapter[str](Id)


@dataclass(frozen=True, slots=True)
class Variable:
    """A lookup with its filters: pairs of a name and an argument."""

    path: str
    filters: tuple[tuple[str, str | None], ...]

    def value(self, context: Mapping[str, Any]) -> str:
        found: Any = context
        for name in self.path.split("."):
            found = cast("dict[str, Any]", found).get(name) if isinstance(found, Mapping) else None
        for name, argument in self.filters:
            if name == "default":
                found = argument if found is None or found == "" else found
            elif found is not None:
                found = _filtered(name, self._text(found))
        return self._text(found).replace("%", "%25").replace(":", "%3A")

    def _text(self, found: Any) -> str:
        field = f"context.{self.path}"
        if found is None or found == "":
            raise InvalidRequest(f"{field}: the key template needs this variable", field=field)
        if isinstance(found, bool):
            return "true" if found else "false"
        if not isinstance(found, str | int):
            raise InvalidRequest(f"{field}: a text or an integer can be part of a key, got {found!r}", field=field)
        return str(found)


@lru_cache(maxsize=1024)
def parse_template(template: str) -> tuple[str | Variable, ...]:
    """Return the parts of a template. Raises `InvalidRequest` for anything but text and variables."""
    parts: list[str | Variable] = []
    rest = template
    while rest:
        text, opening, rest = rest.partition("{{")
        if "}}" in text or "{%" in text or "{#" in text:
            raise InvalidRequest(f"{FIELD}: only text and '{{{{ variables }}}}', got {text!r}", field=FIELD)
        if text:
            parts.append(text)
        if opening:
            inside, closing, rest = rest.partition("}}")
            if not closing:
                raise InvalidRequest(f"{FIELD}: '{{{{{inside}' has no '}}}}'", field=FIELD)
            parts.append(_variable(inside))
    return tuple(parts)


def _variable(inside: str) -> Variable:
    path, *filters = (part.strip() for part in inside.split("|"))
    if not _PATH.fullmatch(path):
        raise InvalidRequest(f"{FIELD}: {path!r} is not the name of a variable", field=FIELD)
    found: list[tuple[str, str | None]] = []
    for each in filters:
        match = _FILTER.fullmatch(each)
        argument = None if match is None else match[2] if match[2] is not None else match[3]
        if match is None or (match[1] == "default") != (argument is not None):
            raise InvalidRequest(f"{FIELD}: {each!r} is none of lower, slug and default('text')", field=FIELD)
        found.append((match[1], argument))
    return Variable(path, tuple(found))


def _filtered(name: str, text: str) -> str:
    return text.lower() if name == "lower" else _OTHERS.sub("-", text.lower()).strip("-")


def key_of(template: str, context: Mapping[str, Any]) -> str:
    """Return the key that a context has. Raises `InvalidRequest` for a missing variable, or if it is no id."""
    key = "".join(part if isinstance(part, str) else part.value(context) for part in parse_template(template))
    try:
        return _KEY.validate_python(key)
    except pydantic.ValidationError as error:
        reason = error.errors(include_url=False)[0]["msg"]
        raise InvalidRequest(f"context: the key {key!r} is no id: {reason}", field="context") from error
