"""Writes the operations of a service as methods: parameters with types and defaults, and a docstring for each."""

import keyword
import re
import types
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from textwrap import wrap
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from hivemem_contracts.errors import HiveError
from hivemem_contracts.json_values import Json
from hivemem_contracts.operations import COMMON_ERRORS, WRITE_ERRORS, AnyOperation, ServiceContract

LINE: Final = 120


def method_name(operation: AnyOperation) -> str:
    """Return the name of the method; a word that Python reserves has an underscore appended."""
    return operation.name + "_" * keyword.iskeyword(operation.name)


class MethodsModule:
    """The module with the methods of one service. It collects its imports while its methods are written."""

    def __init__(self, service: ServiceContract, class_name: str) -> None:
        self._service = service
        self._class_name = class_name
        self._imports: dict[str, set[str]] = {"hivemem.methods": {"ServiceMethods"}}

    def text(self) -> str:
        """Return the module, in no particular format."""
        methods = [line for operation in self._service for line in self._method(operation)]
        lines = [
            f'"""The operations of {self._service.name} as methods, generated from the contracts by `make docs`."""',
            "",
            *(f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(self._imports.items())),
            f"from hivemem_contracts.{self._service.name} import operations",
            "",
            "",
            f"class {self._class_name}(ServiceMethods):",
            f'    """{self._service.summary}"""',
            *methods,
        ]
        return "\n".join(lines) + "\n"

    def _method(self, operation: AnyOperation) -> Iterator[str]:
        request: type[BaseModel] = operation.request
        constant = f"operations.{_constant(operation)}"
        reply = self._imported(operation.reply)
        fields = request.model_fields
        yield from ("", f"    @{self._named('hivemem.methods', 'writes' if operation.writes else 'reads')}({constant})")
        parameters = [f"{name}: {self._parameter(request, field)}" for name, field in fields.items()]
        listed = ", ".join(["self", "*", *parameters]) + "," if parameters else "self"
        yield f"    async def {method_name(operation)}({listed}) -> {reply}:"
        yield from _docstring(operation)
        yield f"        return await self._send({constant}, locals())"

    def _parameter(self, request: type[BaseModel], field: FieldInfo) -> str:
        kind = self._type(field.annotation)
        if field.is_required():
            return kind
        if field.default is PydanticUndefined:
            return f"{kind} | None = None"
        if field.default is None and not getattr(request, "default_is_absent", True):
            return f"{kind} = {self._named('hivemem.methods', 'MISSING')}"
        return f"{kind} = {field.default!r}"

    def _type(self, kind: Any) -> str:
        """Return a type as code, without the limits that only a worker checks."""
        origin, args = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._type(args[0])
        if origin is Literal:
            return f"{self._named('typing', 'Literal')}[{', '.join(map(repr, args))}]"
        if origin is not None:
            parts = [self._type(part) for part in args]
            return (
                " | ".join(dict.fromkeys(parts))
                if origin in (Union, types.UnionType)
                else self._collection(origin, parts)
            )
        if kind is Json:
            return self._named("hivemem_contracts.json_values", "Json")
        return "None" if kind is type(None) else self._imported(kind)

    def _collection(self, origin: type, parts: Iterable[str]) -> str:
        # A class with a method `list` has no other use for the name; and more than lists can be passed.
        name = self._named("collections.abc", "Sequence") if origin is list else self._imported(origin)
        return f"{name}[{', '.join(parts)}]"

    def _imported(self, kind: type) -> str:
        return kind.__name__ if kind.__module__ == "builtins" else self._named(kind.__module__, kind.__name__)

    def _named(self, module: str, name: str) -> str:
        self._imports.setdefault(module, set()).add(name)
        return name


def _constant(operation: AnyOperation) -> str:
    """Return the name that the contracts give the operation."""
    module = import_module(f"hivemem_contracts.{operation.service}.operations")
    return next(name for name, value in vars(module).items() if value is operation)


def _docstring(operation: AnyOperation) -> Iterator[str]:
    """Yield the docstring in Google's style, whose sections editors and builders of schemas read."""
    request: type[BaseModel] = operation.request
    text = [operation.summary]
    more = _after_first_sentence(vars(request).get("__doc__") or "")
    if more:
        text += ["", *wrap(more, LINE - 8)]
    described = [(name, _description(field)) for name, field in request.model_fields.items()]
    text += _section("Args", [(name, description) for name, description in described if description])
    general = WRITE_ERRORS if operation.writes else COMMON_ERRORS
    also = ", ".join(error.__name__ for error in general if error not in operation.errors)
    errors = [(error.__name__, _first_paragraph(error)) for error in operation.errors]
    text += _section("Raises", [*errors, ("HiveError", f"As any operation: {also}.")])
    yield f'        """{_in_python(text[0])}'
    yield from (f"        {_in_python(line)}" if line else "" for line in text[1:])
    yield '        """'


def _section(title: str, items: Sequence[tuple[str, str]]) -> list[str]:
    if not items:
        return []
    lines = (wrap(f"{name}: {text}", LINE - 12, subsequent_indent="    ") for name, text in items)
    return ["", f"{title}:", *(f"    {line}" for item in lines for line in item)]


def _after_first_sentence(text: str) -> str:
    """Return what a request's docstring says beyond its first sentence, which repeats the summary."""
    return " ".join(text.split()).partition(". ")[2]


def _first_paragraph(error: type[HiveError]) -> str:
    return " ".join((error.__doc__ or "").partition("\n\n")[0].split())


def _description(field: FieldInfo) -> str:
    """Return the description of a field, and the range of a number."""
    text, least, most = field.description or "", None, None
    for part in _metadata(field):
        if isinstance(part, FieldInfo):
            text = text or part.description or ""
        elif isinstance(part, Ge):
            least = part.ge
        elif isinstance(part, Le):
            most = part.le
    limits = f"{least} to {most}"
    if least is None or most is None or most == 2**53 or limits in text:
        return text
    return f"{text} From {limits}.".strip()


def _metadata(field: FieldInfo) -> Iterator[object]:
    """Yield the limits and descriptions of a field, also inside of a union with None."""
    yield from field.metadata
    kinds = [field.annotation]
    for kind in kinds:
        if get_origin(kind) is Annotated:
            for part in get_args(kind)[1:]:
                yield part
                yield from part.metadata if isinstance(part, FieldInfo) else ()
        elif get_origin(kind) in (Union, types.UnionType):
            kinds.extend(get_args(kind))


def _in_python(text: str) -> str:
    """Return text about JSON in the words of Python."""
    return re.sub(r"\bnull\b", "None", text)
