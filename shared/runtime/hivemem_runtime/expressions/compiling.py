"""The compiler: each node of a syntax tree becomes a function of the frame, which holds the meter and the variables."""

from collections.abc import Callable, Mapping
from typing import Any

from hivemem_runtime.expressions.budget import EvaluationFailed
from hivemem_runtime.expressions.functions import function, map_of
from hivemem_runtime.expressions.loops import exactly_one, gather, quantify
from hivemem_runtime.expressions.syntax import (
    Apply,
    Comprehension,
    Constant,
    ListOf,
    Logic,
    MapOf,
    Name,
    Node,
    Select,
    TypeName,
)
from hivemem_runtime.expressions.values import Unsigned, is_absent, lookup, type_of

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
        case Logic(conditions=conditions):
            return len(conditions) - 1 + sum(map(nodes, conditions))
        case Comprehension(source=source):
            return 1 + nodes(source)
        case Constant() | Name() | TypeName():
            return 1


class Compiler:
    """Compiles one tree. Place 0 of a frame is the meter's; then come the variables, then one place for each loop."""

    def __init__(self, variables: tuple[str, ...]) -> None:
        places = {name: place for place, name in enumerate(variables, 1)}
        self._places: Mapping[str, int] = places | {f".{name}": place for name, place in places.items()}
        self._first_loop = len(variables) + 1
        self.loops = 0

    def compiled(self, tree: Node) -> Run:
        run: Run
        match tree:
            case Constant():
                run = _value(Unsigned(tree.value) if tree.unsigned else tree.value)
            case Name(name):
                run = _read(self._places[name])
            case TypeName():
                run = _value(tree)
            case Select(operand, field, test):
                run = (_has if test else _select)(self.compiled(operand), field)
            case Apply():
                run = self._apply(tree)
            case ListOf(items):
                run = _list([self.compiled(item) for item in items])
            case MapOf(entries):
                run = _map([(self.compiled(key), self.compiled(value)) for key, value in entries])
            case Logic(decides, conditions):
                run = _logic([self.compiled(condition) for condition in conditions], decides=decides)
            case Comprehension():
                run = self._loop(tree)
        return run

    def _apply(self, call: Apply) -> Run:
        runs = [self.compiled(argument) for argument in call.arguments]
        if call.function == "_?_:_":
            condition, yes, no = runs
            return lambda frame: yes(frame) if _truth(condition(frame)) else no(frame)
        act = function(call.function)
        if len(runs) == 1:
            only = runs[0]
            return lambda frame: act(frame[0], only(frame))
        first, second = runs
        return lambda frame: act(frame[0], first(frame), second(frame))

    def _loop(self, loop: Comprehension) -> Run:
        source = self.compiled(loop.source)
        place = self._first_loop + self.loops
        self.loops += 1
        outside = self._places
        self._places = {**outside, loop.variable: place}
        condition = self._body(loop.condition) if loop.condition else None
        item = self._body(loop.item) if loop.item else None
        self._places = outside
        if condition is None:
            assert item is not None, "a loop has a body"
            return gather(source, place, item)
        match loop.macro:
            case "all" | "exists":
                return quantify(source, place, *condition, decides=loop.macro == "exists")
            case "exists_one":
                return exactly_one(source, place, *condition)
            case "filter" | "map":
                return gather(source, place, item, condition)

    def _body(self, tree: Node) -> tuple[Run, int]:
        return self.compiled(tree), 1 + nodes(tree)


def _value(value: Any) -> Run:
    return lambda frame: value


def _list(items: list[Run]) -> Run:
    return lambda frame: [item(frame) for item in items]


def _map(entries: list[tuple[Run, Run]]) -> Run:
    return lambda frame: map_of([(key(frame), value(frame)) for key, value in entries])


def _read(place: int) -> Run:
    return lambda frame: frame[place]


def _select(operand: Run, field: str) -> Run:
    def select(frame: Frame) -> Any:
        value = operand(frame)
        if value.__class__ is not dict:
            raise EvaluationFailed(f"{type_of(value)} has no fields")
        try:
            return value[field]
        except KeyError:
            raise EvaluationFailed(f"no such key: {field}") from None

    return select


def _has(operand: Run, field: str) -> Run:
    def has(frame: Frame) -> bool:
        value = operand(frame)
        if value.__class__ is not dict:
            raise EvaluationFailed(f"{type_of(value)} has no fields")
        return not is_absent(lookup(value, field))

    return has


def _truth(value: Any) -> bool:
    if value.__class__ is bool:
        return bool(value)
    raise EvaluationFailed(f"{type_of(value)} is no condition")


def _logic(conditions: list[Run], *, decides: bool) -> Run:
    """`&&` and `||`: each condition can decide, also where others fail."""

    def logic(frame: Frame) -> bool:
        failure: str | None = None  # without the exception, whose traceback would keep the frame alive
        for condition in conditions:
            try:
                if _truth(condition(frame)) is decides:
                    return decides
            except EvaluationFailed as error:
                failure = str(error)
        if failure is not None:
            raise EvaluationFailed(failure)
        return not decides

    return logic
