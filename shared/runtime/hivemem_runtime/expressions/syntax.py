"""The syntax trees of CEL."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Constant:
    value: Any
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, by its name; after a dot, never one of a loop."""

    name: str


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type, which is also a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    operand: "Node"
    field: str
    test: bool = False


@dataclass(frozen=True, slots=True)
class Apply:
    """A function or an operator; the receiver of a method is its first argument."""

    function: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Logic:
    """Two or more conditions. `decides` is the value of one that settles the matter: false for `&&`, true for `||`."""

    decides: bool
    conditions: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    entries: tuple[tuple["Node", "Node"], ...]


Macro = Literal["all", "exists", "exists_one", "filter", "map"]


@dataclass(frozen=True, slots=True)
class Comprehension:
    """A macro over the items of a list or the keys of a map. `filter` has no item, and `map` may have no condition."""

    macro: Macro
    variable: str
    source: "Node"
    condition: "Node | None"
    item: "Node | None" = None


Node = Constant | Name | TypeName | Select | Apply | Logic | ListOf | MapOf | Comprehension
