"""Random guards of state machines: valid ones, broken ones, and ones that would run for ages without a budget."""

from random import Random
from typing import Any, Final

OPERANDS: Final = (
    *(
        "state.l",
        "state.s",
        "state.n",
        "state.x",
        "state",
        "event",
        "event.type",
        "event.content",
        "state['user:name']",
    ),
    *("1", "0", "-1", "9223372036854775807", "1.5", "1e308", "'a'", "''", "b'\\xff'", "null", "true", "[]", "{}"),
    *("[1, 2, 3]", "{'a': 1}", "timestamp('2026-01-31T09:30:00Z')", "duration('5s')", "dyn(1)", "'\\ud800'", "'\\0'"),
)
OPERATORS: Final = ("+", "-", "*", "/", "%", "==", "!=", "<", ">=", "in", "&&", "||")
MACROS: Final = ("all", "exists", "exists_one", "map", "filter")
CALLS: Final = ("size", "string", "int", "double", "bytes", "type", "timestamp", "duration", "has", "nothing")
EXPLOSIVE: Final = (
    "state.l.map(x, state.s + state.s + state.s).size() > 0",
    "state.l.map(a, state.l.map(b, state.l.map(c, state.l))).size() > 0",
    "[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, [1,2,3,4,5,6,7,8].all(c, [1,2,3,4,5,6,7,8].all(d, a > 0))))",
    "state.s.matches('(a+)+$')",
    "state.s.matches('(((((a{1,30}){1,30}){1,30}){1,30}){1,30}){1,30}')",
    "'" + "a" * 900 + "'.matches('(a|a|aa)*b')",
    "(" * 300 + "1" + ")" * 300 + " == 1",
    "!" * 900 + "true",
    "-" * 500 + "1 < 2",
    "[" * 400 + "]" * 400 + " == []",
    "true" + " && true" * 120,
    "state" + ".a" * 500,
    "state" + "[0]" * 300,
    "1 ? 2 : " * 100 + "3",
    "'a'" + " + 'a'" * 150 + " == ''",
)
DEPTH: Final = 4
EVENTS: Final = ("go", "stop")
LISTS: Final = (3, 3, 200, 200, 9_000)
TEXTS: Final = (1, 500, 500, 20_000)


def expression(random: Random) -> str:
    if random.random() < 0.15:
        return random.choice(EXPLOSIVE)
    text = _term(random, 0)[:1_024]
    if random.random() < 0.1:
        place = random.randrange(len(text))
        text = text[:place] + random.choice("()[]{}'\"\\\0.,?:é\u2028x1") + text[place + 1 :]
    return text


def _term(random: Random, depth: int) -> str:
    kind = random.randrange(7) if depth < DEPTH else 0
    if kind < 2:
        return random.choice(OPERANDS)
    first = _term(random, depth + 1)
    if kind == 2:
        return f"{random.choice(CALLS)}({first})"
    second = _term(random, depth + 1)
    if kind == 3:
        return f"{first}.{random.choice(MACROS)}(x, {second})"
    if kind == 4:
        return f"({first}) ? {second} : {_term(random, depth + 1)}"
    if kind == 5:
        return f"{first}[{second}]"
    return f"({first} {random.choice(OPERATORS)} {second})"


def guarded_machine(random: Random) -> dict[str, Any]:
    """Return a machine whose events lead from each state to the other one if the guard allows it."""
    guards = [
        {"from": source, "event": event, "to": "ab".replace(source, ""), "when": expression(random)}
        for source in "ab"
        for event in EVENTS
    ]
    return {"initial": "a", "states": ["a", "b"], "transitions": guards, "open": random.random() < 0.5}


def state_to_guard(random: Random) -> dict[str, Any]:
    """Return the values that the operands name, sometimes so large that careless guards explode."""
    state = {"l": list(range(random.choice(LISTS))), "s": "a" * random.choice(TEXTS), "n": random.choice((0, 5, -7))}
    return state | {"x": random.choice((None, {"a": {"a": [0]}}, "\0", [["a"]], 1e308)), "user:name": "ann"}
