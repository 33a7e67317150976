"""Definitions in YAML or JSON files: read, validated against a model, and every error with its line and column.

The YAML is that of JSON with fewer marks: `yes` and `1:30` and `2026-11-19` are texts, keys are texts, and a key stands
once in a mapping.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, cast

import yaml
from pydantic import BaseModel

from hivemem_contracts.error_values import field_path, shown
from hivemem_contracts.errors import HiveError, InvalidRequest
from hivemem_contracts.limits import JSON_DEPTH
from hivemem_contracts.model import decode_body

FILE_BYTES: Final = 4_194_304
NODES: Final = 200_000
"""The values of one file, with each use of an anchor counted: by anchors, a few lines describe billions."""

ModelT = TypeVar("ModelT", bound=BaseModel)
ErrorT = TypeVar("ErrorT", bound=HiveError)
Place = tuple[str | int, ...]

_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final[tuple[tuple[str, str, str], ...]] = (
    ("null", r"^(?:null|~|)$", "n~\0"),
    ("bool", r"^(?:true|false)$", "tf"),
    ("int", r"^-?(?:0|[1-9][0-9]*)$", "-0123456789"),
    ("float", r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$", "-0123456789"),
)


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    found: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for name, pattern, first in _SCALARS:
        for character in ("" if mark == "\0" else mark for mark in first):
            found.setdefault(character, []).append((f"{_TAG}{name}", re.compile(pattern)))
    return found


class _Loader(yaml.SafeLoader):
    """Knows the scalars of JSON, and takes any other plain scalar for text."""

    yaml_implicit_resolvers: Any = _resolvers()


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file, counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Definition(Generic[ModelT]):
    """A validated document of a file. `value` is its JSON as it was written."""

    body: ModelT
    value: dict[str, Any]
    positions: Mapping[str, Position] = field(repr=False)

    def located(self, error: HiveError, below: str = "") -> HiveError:
        """Return an error of a worker with the position of its field; `below` is the field that the document was sent
        in."""
        named = str(error.context.get("field", "")).removeprefix(below).removeprefix(".")
        return _located(error, named, self.positions)


def read_definitions(path: str | Path, model: type[ModelT]) -> list[Definition[ModelT]]:
    """Return the documents of a YAML or JSON file, in order.

    Raises `InvalidRequest` for the first error, whose context has the `file`, `line`, `column` and `field`, and
    `OSError` if the file cannot be read.
    """
    file = Path(path)
    if file.stat().st_size > FILE_BYTES:
        raise InvalidRequest(f"{file}: {file.stat().st_size} bytes, {FILE_BYTES} at most", file=str(file))
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{file}: byte {error.start} is not UTF-8", file=str(file)) from error
    return parse_definitions(text, str(file), model)


def parse_definitions(text: str, file: str, model: type[ModelT]) -> list[Definition[ModelT]]:
    """Return the documents of a text; `file` is its name in errors."""
    # Within the texts of JSON a tab is escaped, and YAML takes none between its tokens.
    text = text.replace("\t", " ") if file.endswith(".json") else text
    try:
        found = [_Document(file).read(node, model) for node in yaml.compose_all(text, Loader=_Loader)]
    except yaml.YAMLError as error:
        raise _not_yaml(error, file) from error
    if not found:
        raise InvalidRequest(f"{file}:1:1: there is no document", file=file, line=1, column=1)
    return found


class _Document:
    """One document while it is read."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._positions: dict[str, Position] = {}
        self._keys: dict[str, Position] = {}
        self._nodes = 0

    def read(self, node: yaml.Node, model: type[ModelT]) -> Definition[ModelT]:
        value = self._value(node, ())
        if not isinstance(value, dict):
            raise self._wrong(node, (), f"a mapping is wanted, got {shown(value)}")
        data = json.dumps(value).encode()
        try:
            body = decode_body(model, data)
        except HiveError as error:
            unknown = error.context.get("problem") == "extra_forbidden"
            places = {**self._positions, **self._keys} if unknown else self._positions
            raise _located(error, str(error.context.get("field", "")), places) from error
        return Definition(body, cast("dict[str, Any]", value), self._positions)

    def _value(self, node: yaml.Node, path: Place) -> Any:
        self._nodes += 1
        if self._nodes > NODES or len(path) > JSON_DEPTH:
            limit = f"{NODES} values" if self._nodes > NODES else f"{JSON_DEPTH} levels"
            raise self._wrong(node, path, f"the document has over {limit}")
        self._positions[field_path(path)] = self._position(node)
        if isinstance(node, yaml.MappingNode):
            return dict(self._entries(node, path))
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, place)) for place, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _entries(self, node: yaml.MappingNode, path: Place) -> Iterator[tuple[str, Any]]:
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._wrong(key, path, "a key is a text")
            name = str(key.value)
            if name in seen:
                raise self._wrong(key, (*path, name), "this key is there twice")
            seen.add(name)
            self._keys[field_path((*path, name))] = self._position(key)
            yield name, self._value(value, (*path, name))

    def _scalar(self, node: yaml.Node, path: Place) -> Any:
        kind, text = node.tag.removeprefix(_TAG), str(node.value)
        match kind:
            case "str":
                return text
            case "null":
                return None
            case "bool":
                return text == "true"
            case "int" | "float":
                try:
                    return json.loads(text)
                except ValueError as error:
                    raise self._wrong(node, path, f"this is no number: {shown(text)}") from error
            case _:
                raise self._wrong(node, path, f"the tag {node.tag!r} is not allowed")

    def _position(self, node: yaml.Node) -> Position:
        mark = node.start_mark
        return Position(self._file, mark.line + 1, mark.column + 1)

    def _wrong(self, node: yaml.Node, path: Place, why: str) -> InvalidRequest:
        name = field_path(path)
        return _at(InvalidRequest(f"{name}: {why}", field=name), self._position(node))


def _located(error: HiveError, name: str, positions: Mapping[str, Position]) -> HiveError:
    """Return the error with the position of its field, or of the nearest one around it that is there."""
    while name and name not in positions:
        name = name.rpartition(".")[0]
    return _at(error, positions[name or field_path(())])


def _at(error: ErrorT, position: Position) -> ErrorT:
    located = type(error)(f"{position}: {error.detail}", **error.context)
    located.context |= {"file": position.file, "line": position.line, "column": position.column}
    return located


def _not_yaml(error: yaml.YAMLError, file: str) -> InvalidRequest:
    mark = getattr(error, "problem_mark", None)
    why = getattr(error, "problem", None) or str(error)
    position = Position(file, 1, 1) if mark is None else Position(file, mark.line + 1, mark.column + 1)
    return _at(InvalidRequest(f"this is not YAML: {why}"), position)
