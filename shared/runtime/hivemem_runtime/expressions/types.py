"""The types of expressions, inferred while they are parsed, so that an operator that never applies is refused."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_NESTING: Final = 8
"""Types within types count as `dyn` from here on, so that no type is large."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type by its name. The name of a type that is not known yet starts with `?`."""

    name: str
    inner: tuple["Type", ...] = ()

    def __str__(self) -> str:
        return self.shown(0)

    def shown(self, nesting: int) -> str:
        if self.name.startswith("?") or nesting == _NESTING:
            return "dyn"
        inner = ", ".join(each.shown(nesting + 1) for each in self.inner)
        return f"{self.name}({inner})" if inner else self.name


DYN: Final = Type("dyn")
NULL: Final = Type("null_type")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
TIMESTAMP: Final = Type("google.protobuf.Timestamp")
DURATION: Final = Type("google.protobuf.Duration")
TYPES: Final = {
    each.name: each
    for each in (
        *(NULL, BOOL, INT, UINT, DOUBLE, STRING, BYTES, TIMESTAMP, DURATION, Type("type")),
        *(Type("list", (DYN,)), Type("map", (DYN, DYN))),
    )
}
"""The types that an expression can name."""


def list_of(item: Type) -> Type:
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


@dataclass(frozen=True)
class Overload:
    """What a function takes, its receiver first if it is a method, and what it returns."""

    takes: tuple[Type, ...]
    gives: Type
    method: bool = False

    @cached_property
    def generic(self) -> bool:
        """Whether it takes values of any type."""
        return any(type_.name.startswith("?") or type_.inner for type_ in self.takes)


_NULLABLE: Final = ({NULL.name, TIMESTAMP.name}, {NULL.name, DURATION.name})
_A, _B = Type("?A"), Type("?B")
_NUMBERS: Final = (INT, UINT, DOUBLE)
_ORDERED: Final = (*_NUMBERS, BOOL, STRING, BYTES, TIMESTAMP, DURATION)
_SIZED: Final = (STRING, BYTES, list_of(_A), map_of(_A, _B))


def _binary(*kinds: Type, gives: Type | None = None) -> list[Overload]:
    return [Overload((kind, kind), gives or kind) for kind in kinds]


def _conversion(to: Type, *kinds: Type) -> list[Overload]:
    return [Overload((kind,), to) for kind in kinds]


def _part(*kinds: Type) -> list[Overload]:
    zone = [Overload((TIMESTAMP, STRING), INT, method=True)]
    return [Overload((kind,), INT, method=True) for kind in (TIMESTAMP, *kinds)] + zone


_TEXT_TEST: Final = [Overload((STRING, STRING), BOOL, method=True)]
_OVERLOADS: Final[dict[str, list[Overload]]] = {
    "_+_": [
        *_binary(*_NUMBERS, STRING, BYTES, DURATION, list_of(_A)),
        *(Overload((TIMESTAMP, DURATION), TIMESTAMP), Overload((DURATION, TIMESTAMP), TIMESTAMP)),
    ],
    "_-_": [
        *_binary(*_NUMBERS, DURATION),
        *(Overload((TIMESTAMP, TIMESTAMP), DURATION), Overload((TIMESTAMP, DURATION), TIMESTAMP)),
    ],
    "_*_": _binary(*_NUMBERS),
    "_/_": _binary(*_NUMBERS),
    "_%_": _binary(INT, UINT),
    "-_": [Overload((INT,), INT), Overload((DOUBLE,), DOUBLE)],
    "!_": [Overload((BOOL,), BOOL)],
    "_==_": _binary(_A, gives=BOOL),
    "_!=_": _binary(_A, gives=BOOL),
    **{f"_{sign}_": _binary(*_ORDERED, gives=BOOL) for sign in ("<", "<=", ">", ">=")},
    "@in": [Overload((_A, list_of(_A)), BOOL), Overload((_A, map_of(_A, _B)), BOOL)],
    "_[_]": [Overload((list_of(_A), INT), _A), Overload((map_of(_A, _B), _A), _B)],
    "_?_:_": [Overload((BOOL, _A, _A), _A)],
    "size": [Overload((kind,), INT, method=method) for kind in _SIZED for method in (False, True)],
    "contains": _TEXT_TEST,
    "startsWith": _TEXT_TEST,
    "endsWith": _TEXT_TEST,
    "matches": [*_TEXT_TEST, *_binary(STRING, gives=BOOL)],
    "bool": _conversion(BOOL, BOOL, STRING),
    "bytes": _conversion(BYTES, BYTES, STRING),
    "double": _conversion(DOUBLE, DOUBLE, INT, STRING, UINT),
    "duration": _conversion(DURATION, DURATION, INT, STRING),
    "int": _conversion(INT, INT, DOUBLE, DURATION, STRING, TIMESTAMP, UINT),
    "string": _conversion(STRING, STRING, BOOL, BYTES, DOUBLE, DURATION, INT, TIMESTAMP, UINT),
    "timestamp": _conversion(TIMESTAMP, TIMESTAMP, INT, STRING),
    "uint": _conversion(UINT, UINT, DOUBLE, INT, STRING),
    "dyn": [Overload((_A,), DYN)],
    "type": [Overload((_A,), Type("type", (_A,)))],
    **dict.fromkeys(("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getMonth"), _part()),
    **dict.fromkeys(("getHours", "getMilliseconds", "getMinutes", "getSeconds"), _part(DURATION)),
}
"""The functions and operators of CEL's standard library."""


_BY_SHAPE: Final[dict[tuple[str, int, bool], list[Overload]]] = {}
for _name, _overloads in _OVERLOADS.items():
    for _overload in _overloads:
        _BY_SHAPE.setdefault((_name, len(_overload.takes), _overload.method), []).append(_overload)


def overloads(function: str, count: int, *, method: bool) -> list[Overload]:
    """Return the overloads of a function or method with a number of arguments, the receiver included."""
    return _BY_SHAPE.get((function, count, method), [])


class Inference:
    """The known types of one expression."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._changes: list[tuple[str, Type | None]] = []
        self._unknown = 0

    def unknown(self) -> Type:
        """Return a type that is not known yet."""
        self._unknown += 1
        return Type(f"?{self._unknown}")

    def resolved(self, type_: Type) -> Type:
        """Return what is known about a type, but not about the types within it."""
        while type_.name in self._bound:
            type_ = self._bound[type_.name]
        return type_

    def result(self, function: str, given: Sequence[Type], *, method: bool = False) -> Type | None:
        """Return what a function returns for arguments of these types, or None if it does not take them."""
        found: Type | None = None
        for overload in overloads(function, len(given), method=method):
            names: dict[str, Type] = {}
            takes = [self._instance(each, names) for each in overload.takes] if overload.generic else overload.takes
            if self._all_fit(given, takes, keep=found is None):
                gives = self._instance(overload.gives, names) if overload.generic else overload.gives
                if found is not None and found != gives:
                    return DYN
                found = gives
        return found

    def _instance(self, type_: Type, names: dict[str, Type]) -> Type:
        if type_.name.startswith("?"):
            if type_.name not in names:
                names[type_.name] = self.unknown()
            return names[type_.name]
        return Type(type_.name, tuple(self._instance(each, names) for each in type_.inner)) if type_.inner else type_

    def fits(self, given: Type, wanted: Type) -> bool:
        """Return whether a value of one type may be one of another, and remember what follows from that."""
        return self._all_fit([given], [wanted], keep=True)

    def joined(self, types: Sequence[Type]) -> Type:
        """Return the type of the items of a list or map."""
        if not types:
            return self.unknown()
        found = types[0]
        for each in types[1:]:
            if DYN in (self.resolved(found), self.resolved(each)):
                return DYN
            if self.fits(each, found):
                continue
            if not self.fits(found, each):
                return DYN
            found = each
        return found

    def _all_fit(self, given: Sequence[Type], wanted: Sequence[Type], *, keep: bool) -> bool:
        fit = True
        for one, other in zip(given, wanted, strict=True):
            if one is not other and not self._fits(one, other, 0):
                fit = False
                break
        if self._changes and not (fit and keep):
            for name, before in reversed(self._changes):
                if before is None:
                    del self._bound[name]
                else:
                    self._bound[name] = before
        self._changes.clear()
        return fit

    def _bind(self, name: str, type_: Type) -> None:
        self._changes.append((name, self._bound.get(name)))
        self._bound[name] = type_

    def _fits(self, given: Type, wanted: Type, nesting: int) -> bool:
        if nesting == _NESTING:
            return True
        variable = wanted.name
        while wanted.name in self._bound:
            variable, wanted = wanted.name, self._bound[wanted.name]
        given = self.resolved(given)
        if given is wanted or given.name == wanted.name == "type":
            return True
        for one, other in ((given, wanted), (wanted, given)):
            if one.name.startswith("?"):
                if not self._mentions(other, one.name, nesting):
                    self._bind(one.name, other)
                return True
        names = {given.name, wanted.name}
        if "dyn" in names or names in _NULLABLE:
            if variable.startswith("?") and (wanted is NULL or given is DYN):
                self._bind(variable, given)
            return True
        return given.name == wanted.name and all(
            self._fits(one, other, nesting + 1) for one, other in zip(given.inner, wanted.inner, strict=True)
        )

    def _mentions(self, type_: Type, name: str, nesting: int) -> bool:
        """Return whether a type contains an unknown one, which would then contain itself."""
        if nesting == _NESTING:
            return False
        type_ = self.resolved(type_)
        return type_.name == name or any(self._mentions(each, name, nesting + 1) for each in type_.inner)
