"""Turns the fields of a request into options of the command line, from the declaration of the operation."""

import inspect
import shlex
import sys
import types
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import orjson
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from rich.markup import escape

from hivemem.cli.positional_fields import BY_POSITION

JSON_HELP: Final = "JSON, or @FILE, or @- for standard input."
ALSO_BY_POSITION: Final = frozenset(
    {
        ("GetState", "session_id"),
        ("BeginUpload", "session_id"),
        ("BeginUpload", "name"),
        ("ListWindows", "resource"),
        *((model, "key") for model in ("ReadWindow", "ReadOriginals", "FlushWindow", "InspectWindow", "ClearWindow")),
    }
)
"""Optional fields that most calls have, by request and name. Required fields always have a position."""
SHOWN_CHARACTERS: Final = 40
NULL: Final = object()
"""An explicit null, for fields where leaving them out means something else."""

_PLAIN: Final[dict[Any, type]] = {str: str, int: int, float: float, bool: bool, datetime: str}


def options_of(model: type[BaseModel]) -> list[inspect.Parameter]:
    """Return one option for each field, required like the field; options that are not given are not sent."""
    return [
        _option(name, field, by_position=field.is_required() or (model.__name__, name) in ALSO_BY_POSITION)
        for name, field in model.model_fields.items()
    ]


def values_of(model: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the body from the options."""
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        value = given[name]
        if value is None:
            continue
        kinds = _kinds(field.annotation)
        if value is NULL or (value == "null" and datetime in kinds):
            values[name] = None
        else:
            values[name] = value if _plain(kinds) else read_json(value, _flag(name, field), text_too=str in kinds)
    return values


def read_json(text: str, option: str, *, text_too: bool = False) -> Any:
    """Return a JSON value from the command line or a file; plain text is accepted if the field accepts text."""
    source = text
    if text.startswith("@"):
        try:
            source = sys.stdin.read() if text == "@-" else Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"{text[1:]} cannot be read: {error}", param_hint=option) from error
    try:
        return orjson.loads(source)
    except orjson.JSONDecodeError as error:
        if text_too:
            return text
        hint = ""
        if not source.lstrip().startswith(("{", "[")):
            meant = source if source.isprintable() and len(source) <= SHOWN_CHARACTERS else "text"
            hint = f"; text is JSON with quotes around it: {shlex.quote(orjson.dumps(meant).decode())}"
        raise typer.BadParameter(f"not JSON: {error}{hint}", param_hint=option) from error


def _option(name: str, field: FieldInfo, *, by_position: bool) -> inspect.Parameter:
    kinds = _kinds(field.annotation)
    plain = _plain(kinds)
    kind = plain or str
    choices = choices_of(field)
    notes = [
        _description(field.description, field.annotation),
        f"One of {', '.join(choices)}." if choices else "",
        "" if plain else JSON_HELP,
    ]
    if not field.is_required() and field.default not in (None, False) and field.default_factory is None:
        notes.append(f"{field.default} if left out.")
    flag = _flag(name, field)
    flags = [f"{flag}/--no-{flag[2:]}"] if kind is bool else [flag]
    text = escape(" ".join(note for note in notes if note))
    parser = _number_or_null if kind is float and not field.is_required() else None
    info = typer.Option(
        *flags,
        help=text,
        show_default=False,
        parser=parser,
        metavar=flag[2:].replace("-", "_").upper() if by_position else "<float>" if parser else None,
        rich_help_panel=BY_POSITION if by_position else None,
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if field.is_required() else None,
        annotation=Annotated[kind if field.is_required() else kind | None, info],
    )


def choices_of(field: FieldInfo) -> list[str]:
    """Return the words that a field is limited to, if it is."""
    return [choice for choice in _kinds(field.annotation) if isinstance(choice, str)]


def _number_or_null(text: str) -> Any:
    try:
        return NULL if text == "null" else float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number") from None


def _description(own: str | None, annotation: Any) -> str:
    """Return the description of the field, or of its type."""
    if own or annotation is None:
        return own or ""
    found = [mark.description for mark in get_args(annotation) if isinstance(mark, FieldInfo)]
    members = (member for member in get_args(annotation) if get_origin(member) is Annotated)
    return next(filter(None, found), "") or next(filter(None, (_description(None, member) for member in members)), "")


def _flag(name: str, field: FieldInfo) -> str:
    """Return the option's name: the field's name on the wire, if it differs from the Python name."""
    return "--" + (field.serialization_alias or name).replace("_", "-")


def _plain(kinds: Collection[Any]) -> type | None:
    """Return the type of a field that one word can hold, or None if it takes JSON."""
    if kinds and all(isinstance(kind, str) for kind in kinds):
        return str
    return _PLAIN.get(next(iter(kinds))) if len(kinds) == 1 else None


def _kinds(annotation: Any) -> Collection[Any]:
    """Return the possible types of a field in declared order, without constraints and None; a `Literal` gives its
    values."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _kinds(get_args(annotation)[0])
    if origin is Literal:
        return get_args(annotation)
    if origin in (Union, types.UnionType):
        members = (member for member in get_args(annotation) if member is not type(None))
        return dict.fromkeys(kind for member in members for kind in _kinds(member))
    return (annotation,)
