"""The compiler: each node of a syntax tree becomes a function of the frame, which holds the meter and the variables."""

from collections.abc import Callable, Mapping
from typing import Any

from hivemem_runtime.expressions.budget import EvaluationFailed, Meter
from hivemem_runtime.expressions.functions import function, map_of
from hivemem_runtime.expressions.loops import exactly_one, gather, quantify
from hivemem_runtime.expressions.syntax import (
    Apply,
    Comprehension,
    Constant,
    ListOf,
    MapOf,
    Message,
    Name,
    Node,
    Select,
)
from hivemem_runtime.expressions.values import Foreign, is_absent, lookup, native

Frame = list[Any]
Run = Callable[[Frame], Any]


def nodes(tree: Node) -> int:
    """Return how many nodes an evaluation passes at most, without the bodies of loops."""
    match tree:
        case Select(operand):
            return 1 + nodes(operand)
        case Apply(arguments=inner) | ListOf(inner):
            return 1 + sum(map(nodes, inner))
        case MapOf(entries):
            return 1 + sum(nodes(key) + nodes(value) for key, value in entries)
        case Message(_, fields):
            return 1 + sum(nodes(value) for _, value in fields)
        case Comprehension(range=source):
            return 1 + nodes(source)
        case Constant() | Name():
            return 1


class Compiler:
    """Compiles one tree. Place 0 of a frame is the meter's; then come the variables, then one place for each loop."""

    def __init__(self, variables: tuple[str, ...]) -> None:
        self._places: Mapping[str, int] = {name: place for place, name in enumerate(variables, 1)}
        self._first_loop = len(variables) + 1
        self.loops = 0

    def compiled(self, tree: Node) -> Run:
        run: Run
        match tree:
            case Constant():
                run = _constant(tree)
            case Name(name):
                run = _read(self._places[name]) if name in self._places else _named(name)
            case Select(operand, field, test):
                run = (_has if test else _select)(self.compiled(operand), field)
            case Apply():
                run = self._apply(tree)
            case ListOf(items):
                run = _list([self.compiled(item) for item in items])
            case MapOf(entries):
                run = _map([(self.compiled(key), self.compiled(value)) for key, value in entries])
            case Message(name, fields):
                run = _message(name, [(field, self.compiled(value)) for field, value in fields])
            case Comprehension():
                run = self._loop(tree)
        return run

    def _apply(self, call: Apply) -> Run:
        runs = [self.compiled(argument) for argument in call.arguments]
        match call.function, runs:
            case "_&&_", [left, right]:
                return _logic(left, right, decides=False)
            case "_||_", [left, right]:
                return _logic(left, right, decides=True)
            case "_?_:_", [condition, yes, no]:
                return lambda frame: yes(frame) if _truth(condition(frame)) else no(frame)
            case _:
                pass
        act = function(call.function, len(runs), method=call.method)
        match runs:
            case [only]:
                return lambda frame: act(frame[0], only(frame))
            case [first, second]:
                return lambda frame: act(frame[0], first(frame), second(frame))
            case _:
                raise ValueError(f"the function {call.function!r} is not available with {len(runs)} arguments")

    def _loop(self, loop: Comprehension) -> Run:
        """A macro, known by its shape. The parser makes no other loops."""
        source = self.compiled(loop.range)
        place = self._first_loop + self.loops
        self.loops += 1
        outside = self._places
        self._places = {**outside, loop.variable: place}
        try:
            return self._macro(loop, source, place)
        finally:
            self._places = outside

    def _macro(self, loop: Comprehension, source: Run, place: int) -> Run:
        so_far = Name(loop.accumulator)
        match loop.start, loop.step:
            case Constant(True), Apply("_&&_", (left, condition)) if left == so_far:
                return quantify(source, place, *self._body(condition), decides=False)
            case Constant(False), Apply("_||_", (left, condition)) if left == so_far:
                return quantify(source, place, *self._body(condition), decides=True)
            case Constant(0), Apply("_?_:_", (condition, _, right)) if right == so_far:
                return exactly_one(source, place, *self._body(condition))
            case ListOf(()), Apply("_?_:_", (condition, Apply("_+_", (left, ListOf((item,)))), _)) if left == so_far:
                return gather(source, place, *self._body(item), *self._body(condition))
            case ListOf(()), Apply("_+_", (left, ListOf((item,)))) if left == so_far:
                return gather(source, place, *self._body(item))
            case _:
                raise ValueError("a loop that is none of CEL's macros")

    def _body(self, tree: Node) -> tuple[Run, int]:
        return self.compiled(tree), 1 + nodes(tree)


def _constant(tree: Constant) -> Run:
    value = Foreign("uint", str(tree.value)) if tree.unsigned else tree.value
    return lambda frame: value


def _list(items: list[Run]) -> Run:
    return lambda frame: [item(frame) for item in items]


def _map(entries: list[tuple[Run, Run]]) -> Run:
    return lambda frame: map_of([(key(frame), value(frame)) for key, value in entries])


def _read(place: int) -> Run:
    return lambda frame: frame[place]


def _named(name: str) -> Run:
    """A type, or a value of an enumeration."""
    try:
        value = native(name, (), Meter())
    except EvaluationFailed as error:
        raise ValueError(f"the name {name!r} is not available here") from error
    return lambda frame: value


def _select(operand: Run, field: str) -> Run:
    def select(frame: Frame) -> Any:
        value = operand(frame)
        if value.__class__ is not dict:
            raise EvaluationFailed(f"{value.__class__.__name__} has no fields")
        try:
            return value[field]
        except KeyError:
            raise EvaluationFailed(f"no such key: {field}") from None

    return select


def _has(operand: Run, field: str) -> Run:
    def has(frame: Frame) -> bool:
        value = operand(frame)
        if value.__class__ is not dict:
            raise EvaluationFailed(f"{value.__class__.__name__} has no fields")
        return not is_absent(lookup(value, field))

    return has


def _truth(value: Any) -> bool:
    if value.__class__ is bool:
        return bool(value)
    raise EvaluationFailed(f"{value.__class__.__name__} is no condition")


def _logic(left: Run, right: Run, *, decides: bool) -> Run:
    """`&&` and `||`: either side decides, also where the other one fails."""

    def logic(frame: Frame) -> bool:
        try:
            if _truth(left(frame)) is decides:
                return bool(decides)
        except EvaluationFailed:
            if right(frame) is decides:
                return bool(decides)
            raise
        return _truth(right(frame))

    return logic


def _message(name: str, fields: list[tuple[str, Run]]) -> Run:
    template = f"{name}{{{{{', '.join(f'{field}: {{{place}}}' for place, (field, _) in enumerate(fields))}}}}}"
    return lambda frame: native(template, tuple(run(frame) for _, run in fields), frame[0])
