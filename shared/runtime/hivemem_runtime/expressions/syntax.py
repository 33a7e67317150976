"""Parsing and checking of CEL. The library does both; its checked syntax tree is read here from its protobuf bytes."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from cel_expr_python import cel

_SIGN: Final = 1 << 63
_WRAP: Final = 1 << 64
_FIRST: Final = cel.NewEnv()
"""The first environment of a process takes a tenth of a second: here, and not while somebody waits."""


@dataclass(frozen=True, slots=True)
class Constant:
    value: Any
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, or the qualified name of a type or an enumeration's value."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    operand: "Node"
    field: str
    test: bool


@dataclass(frozen=True, slots=True)
class Apply:
    """A function or an operator; the receiver of a method is its first argument."""

    function: str
    arguments: tuple["Node", ...]
    method: bool = False


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    entries: tuple[tuple["Node", "Node"], ...]


@dataclass(frozen=True, slots=True)
class Message:
    name: str
    fields: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True, slots=True)
class Comprehension:
    """What the macros `all`, `exists`, `exists_one`, `filter` and `map` become."""

    variable: str
    range: "Node"
    accumulator: str
    start: "Node"
    step: "Node"


Node = Constant | Name | Select | Apply | ListOf | MapOf | Message | Comprehension


def parse(text: str, variables: tuple[str, ...]) -> Node:
    """The checked syntax tree of an expression; `ValueError` says what is wrong with it."""
    try:
        checked = _environment(variables).compile(text).serialize()
    except RuntimeError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    return _Reader(_Fields(_Fields(checked).bytes(2))).root


@lru_cache(maxsize=64)
def _environment(variables: tuple[str, ...]) -> cel.Env:
    return cel.NewEnv(variables=dict.fromkeys(variables, cel.Type.DYN))


class _Fields:
    """The fields of one protobuf message, by number."""

    __slots__ = ("found",)

    def __init__(self, data: bytes) -> None:
        self.found: dict[int, list[Any]] = {}
        place = 0
        while place < len(data):
            tag, place = _varint(data, place)
            value: Any
            match tag & 7:
                case 2:
                    length, place = _varint(data, place)
                    value = data[place : place + length]
                    place += length
                case 0:
                    value, place = _varint(data, place)
                case 1:
                    value = data[place : place + 8]
                    place += 8
                case kind:
                    raise ValueError(f"a syntax tree has a field of the unknown kind {kind}")
            self.found.setdefault(tag >> 3, []).append(value)

    def __contains__(self, number: int) -> bool:
        return number in self.found

    def integer(self, number: int) -> int:
        return int(self.found[number][-1]) if number in self.found else 0

    def bytes(self, number: int) -> bytes:
        return bytes(self.found[number][-1]) if number in self.found else b""

    def text(self, number: int) -> str:
        return self.bytes(number).decode()

    def message(self, number: int) -> "_Fields":
        return _Fields(self.bytes(number))

    def messages(self, number: int) -> "list[_Fields]":
        return [_Fields(data) for data in self.found.get(number, [])]


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = data[place]
    place += 1
    if value < 0x80:
        return value, place
    value &= 0x7F
    shift = 7
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


class _Reader:
    """Turns `cel.expr.CheckedExpr` into nodes. The numbers are the field numbers of the published schema."""

    def __init__(self, checked: _Fields) -> None:
        references = ((entry.integer(1), entry.message(2)) for entry in checked.messages(2))
        self._names: Mapping[int, str] = {id: name for id, reference in references if (name := reference.text(1))}
        self._kinds: Mapping[int, Callable[[_Fields], Node]] = {
            3: _constant,
            4: self._name,
            5: self._select,
            6: self._apply,
            7: self._list,
            8: self._created,
            9: self._loop,
        }
        self.root = self._node(checked.message(4))

    def _node(self, expression: _Fields) -> Node:
        known = self._names.get(expression.integer(2))
        kind = next(number for number in expression.found if number != 2)
        inner = expression.message(kind)
        if known is not None and kind in (4, 5):
            return Name(known)
        read = self._kinds.get(kind)
        if read is None:
            raise ValueError(f"a syntax tree has a node of the unknown kind {kind}")
        return read(inner)

    @staticmethod
    def _name(name: _Fields) -> Name:
        return Name(name.text(1))

    def _select(self, select: _Fields) -> Select:
        return Select(self._node(select.message(1)), select.text(2), bool(select.integer(3)))

    def _list(self, created: _Fields) -> ListOf:
        return ListOf(self._nodes(created, 1))

    def _loop(self, loop: _Fields) -> Comprehension:
        start, step = self._node(loop.message(4)), self._node(loop.message(6))
        return Comprehension(loop.text(1), self._node(loop.message(2)), loop.text(3), start, step)

    def _nodes(self, fields: _Fields, number: int) -> tuple[Node, ...]:
        return tuple(self._node(each) for each in fields.messages(number))

    def _apply(self, call: _Fields) -> Apply:
        arguments = self._nodes(call, 3)
        receiver = (self._node(call.message(1)),) if 1 in call else ()
        return Apply(call.text(2), receiver + arguments, method=bool(receiver))

    def _created(self, created: _Fields) -> Message | MapOf:
        name = created.text(1)
        entries = created.messages(2)
        if name:
            return Message(name, tuple((entry.text(2), self._node(entry.message(4))) for entry in entries))
        return MapOf(tuple((self._node(entry.message(3)), self._node(entry.message(4))) for entry in entries))


def _constant(constant: _Fields) -> Constant:
    kind = next(iter(constant.found))
    value: Any
    match kind:
        case 1:
            value = None
        case 2:
            value = bool(constant.integer(2))
        case 3:
            value = constant.integer(3)
            value = value - _WRAP if value >= _SIGN else value
        case 4:
            value = constant.integer(4)
        case 5:
            value = struct.unpack("<d", constant.bytes(5))[0]
        case 6:
            value = constant.text(6)
        case 7:
            value = constant.bytes(7)
        case _:
            raise ValueError(f"a syntax tree has a constant of the unknown kind {kind}")
    return Constant(value, unsigned=kind == 4)
