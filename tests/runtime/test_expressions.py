"""The evaluator of expressions agrees with the library, within a budget that is the same on every machine."""

import re
from itertools import product
from traceback import walk_tb
from typing import Any

import pytest
from cel_expr_python import cel
from hypothesis import given, settings
from hypothesis import strategies as st

from hivemem_runtime.expressions.budget import BudgetExceeded, EvaluationFailed, Meter
from hivemem_runtime.expressions.conversions import converted
from hivemem_runtime.expressions.evaluation import Expression
from hivemem_runtime.expressions.patterns import instructions
from hivemem_runtime.expressions.syntax import TypeName
from hivemem_runtime.expressions.values import Duration, Timestamp, Unsigned

VARIABLES = ("state", "event")
LIBRARY = cel.NewEnv(variables=dict.fromkeys(VARIABLES, cel.Type.DYN))
STATE: dict[str, Any] = {
    "n": 5, "f": 2.5, "t": True, "s": "héllo", "z": None, "l": [1, 2, 3], "m": {"a": 1, "b": {"c": [1, {"d": None}]}},
    "e": {}, "big": 2**63 - 1, "neg": -7, "one": 1.0,
}  # fmt: skip
EVENT: dict[str, Any] = {"type": "x", "content": {"score": 0.5}}

OPERATORS = ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||")
OPERANDS = (
    *("state.n", "state.f", "state.t", "state.s", "state.z", "state.l", "state.m", "state.e"),
    *("state.big", "state.neg"),
    *(
        "state.one",
        "state.missing",
        "1u",
        "dyn(5u)",
        "timestamp('2026-01-31T09:30:00.123456789Z')",
        "dyn(timestamp(0))",
    ),
    *("dyn(duration('5s'))", "dyn(b'ab')", "dyn(int)", "dyn(type(1.0))", "1", "0", "0.0", "'a'", "[1.0]", "dyn([1])"),
    *("dyn({'a':1.0})", "dyn({1:2})", "dyn({true:3})", "dyn({5u:1})", "double('nan')"),
    *("double('inf')", "null", "true"),
)
CONVERSIONS = ("bool", "bytes", "double", "duration", "dyn", "int", "size", "string", "timestamp", "type", "uint")
PARTS_OF_TIME = (
    "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds",
    "getMinutes", "getMonth", "getSeconds",
)  # fmt: skip
MACROS = (
    "all(x, x > 1)", "all(x, x)", "exists(x, x == 1)", "exists(x, 1/x > 0 || x == 2)", "exists_one(x, x == 1)",
    "map(x, x)", "map(x, x == 1, [x])", "filter(x, x == 1)", "all(x, [2, 1].exists(x, x > 1) && x > 0)",
)  # fmt: skip
ONE = [
    *("!{0}", "-{0}", "{0}.a", "has({0}.a)", "{0}.size()", "{0} == {0}", "{0} in [{0}]", "[{0}] == [{0}]"),
    *("{{'k': {0}}}.k == {0}", "{{{0}: 1}}[{0}] == 1", "{0}.getHours('Europe/Berlin')", "string({0}) == string({0})"),
    *(f"{name}({{0}})" for name in CONVERSIONS),
    *(f"{{0}}.{name}()" for name in PARTS_OF_TIME),
    *(f"{{0}}.{macro}" for macro in MACROS),
]
TWO = [
    *(f"{{0}} {operator} {{1}}" for operator in OPERATORS),
    *(f"{{0}}.{name}({{1}})" for name in ("contains", "startsWith", "endsWith", "matches")),
    *("{0}[{1}]", "{0} ? {1} : state.n", "matches({0}, {1})"),
]
FORMS = (
    *("state.`n`", "state.`a b`", "`n`", ".state.n", "state . n", "state\n.n", "1 // c", "//", "1//\r2", "state.for"),
    *("for", "state.all(for, true)", "state.in", "dyn((1))", "()", "(1)(2)", "state.n()", "state()", "1 2", "a.b.c"),
    *("0x1F", "0X1", "-0x8000000000000000", "-9223372036854775808", "--9223372036854775808", "9223372036854775808"),
    *("18446744073709551615u", "18446744073709551616u", "1U", "1e3", "1.", ".5", "1e", "1e400", "007", "1_0", "- 1"),
    *("--state.n", "---state.n", "!!state.t", "!-1", "-!true", "1-1", "-1 .size()", "1 == 2 == true", "1 < 2 < 3"),
    *("'\\x41\\101\\u00e9\\U0001F600\\?'", "'\\q'", "'\\ud800'", "'\\400'", "'a\nb'", "'a"),
    *("'''a\r\n'b'''", "''''a'''"),
    *("r'\\d'", "r'\\'", 'R"""\\a\n"""', "rb'a'", "bR'\\n'", "b'é\\xff'", "b'\\u0041'", "'\0'"),
    *("1 \0", "é", "1\u00a0"),
    *("[1,]", "[,]", "[1,,2]", "{1:2,}", "{,}", "{1: 2, 1u: 3}.size()", "{1: 1, 1: 2}", "{1.5: 1}", "[1, 2][-1]"),
    *("size(1,)", "[1, 'a'][0] + 1", "[1]['a']", "[1][1u]", "[1].a", "{'a': 1}.b", "has([1].a)"),
    *("has(state)", "has()"),
    *("1 == 'a'", "1 == 1.0", "null == 1", "null == timestamp(0)", "[null] == [timestamp(0)]"),
    *("[] == [1]", "[] + ['a']"),
    *("true ? 1 : 'a'", "true ? 1 : dyn('a')", "true ? [] : [1]", "1 ? 2 : 3", "true && 1"),
    *("state ? 1 : 2", "true ? 1"),
    *("[1].all(x, x)", "[1].map(x, x + 1)[0] == 'a'", "{1: 2}.all(k, k > 'a')", "'a'.all(x, true)", "[1].all(x.y, 1)"),
    *("[1].all(x, .x > 0)", "[1].all(state, .state.n == 5)", "state.l.map(x, true, x)", "state.l.map(x, x, x, x)"),
    *("state.all(x)", "state.all(", "state.all(x,", "x.", "state.?n", "[?1]", "optional.none()"),
    *("int.x", "type(1) == int"),
    *("int == string", "int < int", "type(timestamp(0)) == google.protobuf.Timestamp", "google", "google.protobuf"),
    *("contains('a', 'b')", "matches('a', 'b')", "'a'.contains(1)", "timestamp(null)", "int(null)", "double(null)"),
    *("[" * 32 + "]" * 32, "[" * 33 + "]" * 33, "(" * 32 + "1" + ")" * 32, "(" * 33 + "1" + ")" * 33),
    *("true" + " && true" * 200, "1" + "+1" * 31, "1" + "+1" * 32, "!" * 900 + "true", "has(state" + ".a" * 31 + ")"),
)  # fmt: skip
CONVERTED = (
    *("string(1e6)", "string(123456.5)", "string(1e-5)", "string(5e-324)", "string(-0.0)", "string(b'\\xff')"),
    *("int(' +1 ')", "int('1_0')", "int('9223372036854775808')", "int(9223372036854775807.0)", "uint('-0')"),
    *("uint(-0.5)", "double('0x1F')", "double(' -Inf')", "double('1e')", "bool('True')", "bool('T')"),
    *("int(timestamp('1969-12-31T23:59:59.5Z'))", "timestamp(' 2026-1-3t9:3:0.5+0230')", "timestamp(253402300800)"),
    *("timestamp('2026-12-31T23:59:60Z')", "timestamp('2026-02-30T00:00:00Z')"),
    *("timestamp(9223372036) - timestamp(-1)"),
    *("timestamp('9999-12-31T23:59:59-01:00')", "duration('1h2m3.5s')", "duration('-.5us')", "duration('1ns') * 2"),
    *("duration('1')", "duration('315576000001s')", "duration('2562047h') + duration('1h')"),
    *("timestamp(0).getDate('x')"),
    *("timestamp('9999-12-31T23:59:59Z').getFullYear('+10:00')", "timestamp(0).getHours('-2:30')"),
    *("duration('-3661.5s').getMinutes()", "duration('-3661.5s').getMilliseconds()"),
)  # fmt: skip

LIBRARY_TYPES = {
    "bool": "BOOL", "bytes": "BYTES", "double": "DOUBLE", "int": "INT", "list": "LIST<DYN>", "map": "MAP<DYN, DYN>",
    "null_type": "NULL", "string": "STRING", "type": "TYPE", "uint": "UINT",
    "google.protobuf.Duration": "DURATION", "google.protobuf.Timestamp": "TIMESTAMP",
}  # fmt: skip

FAILED, INVALID = "failed", "invalid"


def ours(text: str, state: Any = STATE, event: Any = EVENT) -> Any:
    try:
        value = Expression(text, VARIABLES).evaluate({"state": state, "event": event}, Meter(10**7, 10**8))
    except ValueError:
        return INVALID
    except EvaluationFailed:
        return FAILED
    if isinstance(value, (Duration, Timestamp, Unsigned)):
        return converted("string", Meter(), value)
    return LIBRARY_TYPES[value.name] if isinstance(value, TypeName) else value


def theirs(text: str, state: Any = STATE, event: Any = EVENT) -> Any:
    try:
        compiled = LIBRARY.compile(text)
    except RuntimeError:
        return INVALID
    data = {"state": state, "event": event}
    try:
        result = compiled.eval(data=data)
    except RuntimeError:
        return FAILED
    match result.type().name():
        case "ERROR":
            return FAILED
        case "TYPE":
            return result.value().name()
        case "TIMESTAMP" | "DURATION" | "UINT":
            return LIBRARY.compile(f"string({text})").eval(data=data).value()
        case _:
            return result.plain_value()


def agree(text: str, **values: Any) -> bool:
    mine, other = ours(text, **values), theirs(text, **values)
    if other.__class__ in (list, dict):  # other expressions compare the number types inside
        return type(mine) is type(other) and len(mine) == len(other)
    return repr(mine) == repr(bytes(other) if isinstance(other, bytearray) else other)


@pytest.mark.parametrize("form", [*ONE, *TWO])
def test_the_evaluator_agrees_with_the_library(form: str) -> None:
    texts = [form.format(*operands) for operands in product(OPERANDS, repeat=2 if "{1}" in form else 1)]
    assert [text for text in texts if not agree(text)] == []


def test_the_parser_and_the_conversions_agree_with_the_library() -> None:
    assert [text for text in (*FORMS, *CONVERTED) if not agree(text)] == []


leaves = st.sampled_from([*OPERANDS, "state", "x", "b'x'", "duration('1s')", "string", "r'\\d'"])
expressions = st.recursive(
    leaves,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(OPERATORS), inner)
        | st.builds("{} {} {}".format, inner, st.sampled_from(OPERATORS), inner)
        | st.builds("{}({})".format, st.sampled_from([*CONVERSIONS, "!", "-", "nothing"]), inner)
        | st.builds("{}.{}(x, {})".format, inner, st.sampled_from(["all", "exists_one", "map", "filter"]), inner)
        | st.builds("{} ? {} : {}".format, inner, inner, inner)
        | st.builds("{}[{}]".format, inner, inner)
        | st.builds("[{}, {}]".format, inner, inner)
        | st.builds("{{{}: {}}}".format, inner, inner)
    ),
    max_leaves=6,
)


@settings(deadline=None, derandomize=True)
@given(expressions, st.integers(0, 200), st.sampled_from(["", "", "", *"()[]{}'\"\\.,?:é1 -!u`/\n&|=<>"]))
def test_the_parser_agrees_with_the_library_on_any_text(text: str, place: int, odd: str) -> None:
    assert agree(text[:place] + odd + text[place + len(odd) :])


numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
any_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | st.sampled_from([0, 1, -1, 1.0, 2.0**53, 2**53 + 1]) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(any_json, any_json, st.sampled_from(TWO + ONE))
def test_the_evaluator_agrees_with_the_library_on_any_json(state: Any, event: Any, form: str) -> None:
    assert agree(form.format("state", "event"), state=state, event=event)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: the end is not expected here"),
        ("1 +\n* 2", "line 2, column 1: '*' is not expected here"),
        ("(1", "column 3: the end is not expected here, but ')'"),
        ("'abc", "column 1: this text has no end"),
        ("event.type == #", "column 15: '#' is not expected here"),
        ("unknown(1)", "column 1: 'unknown' with 1 arguments is not a function here"),
        ("state.n > limit", "column 11: no variable or type is named 'limit'; the variables are: event, state"),
        ("size(state.l) > '3'", "column 15: '>' takes no int and string"),
        ("[" * 40 + "]" * 40, "column 34: nested more than 32 levels deep"),
        ("1" * 20, f"column 1: {'1' * 20} is larger than any integer"),
        ("state.l.all(1, true)", "column 13: '1' is no name for a variable"),
        ("1" + " " * 100_000, "100001 characters, 100000 at most"),
    ],
)
def test_an_invalid_expression_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Expression(text, VARIABLES)


LONG = "x" * 250_000
HUGE: dict[str, Any] = {
    "l": list(range(20_000)), "s": LONG, "m": {str(n): n for n in range(10_000)}, "d": [LONG[:200_000] for _ in "12"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("state.l.map(x, state.s + state.s + state.s).size() > 0", "bytes"),
        ("state.l.map(x, state.l + state.l).size() > 0", "bytes"),
        ("state.l.map(x, bytes(state.s)).size() > 0", "bytes"),
        ("state.l.all(a, state.l.all(b, a + b >= 0))", "steps"),
        ("state.l.all(a, state.m.exists(b, true))", "steps"),
        ("state.l.all(a, !(-1 in state.l))", "steps"),
        ("state.l.all(a, state == state)", "steps"),
        ("state.l.all(a, !state.s.contains('xy'))", "steps"),
        ("state.l.all(a, string(a) != '')", "steps"),
        ("state.s.matches('(x{0,1000}y?){20}z')", "steps"),
        ("state.s.matches('" + "x{0,1000}" * 5 + "y')", "steps"),
        ("'x'.matches(state.s)", "steps"),
    ],
)
def test_what_explodes_ends_at_the_limit(text: str, unit: str) -> None:
    excesses: list[tuple[str, int, int]] = []
    for _ in range(2):
        meter = Meter()
        with pytest.raises(BudgetExceeded) as over:
            Expression(text, VARIABLES).evaluate({"state": HUGE, "event": EVENT}, meter)
        excesses.append((over.value.unit, over.value.limit, over.value.actual))
    assert excesses[0] == excesses[1]
    assert excesses[0][0] == unit
    assert excesses[0][2] > excesses[0][1]


@pytest.mark.parametrize(
    "text",
    [
        "state.l.all(x, x >= 0)",
        "state.l.exists_one(x, x == 19999)",
        "state.m.filter(k, k != '7').size() == 9999",
        "!(-1 in state.l)",
        "state.l == state.l",
        "!state.s.contains('xy')",
        "state.s + state.s != state.s",
        "state.s.matches('^x+$')",
        "'2026-01-31'.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}$')",
        "'018f3c6e-0000-7000-8000-0123456789ab'.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",
    ],
)
def test_what_is_ordinary_stays_within_the_limits_on_the_largest_state(text: str) -> None:
    assert Expression(text, VARIABLES).evaluate({"state": HUGE, "event": EVENT}, Meter()) is True


def test_an_excess_is_no_failure_that_the_other_side_of_a_condition_could_hide() -> None:
    for text in ("state.l.all(a, state.l.all(b, true)) || true", "true && state.l.exists(a, state.l.exists(b, false))"):
        with pytest.raises(BudgetExceeded):
            Expression(text, VARIABLES).evaluate({"state": HUGE, "event": EVENT}, Meter())


def test_an_excess_keeps_nothing_alive_that_was_built() -> None:
    with pytest.raises(BudgetExceeded) as raised:
        Expression("state.l.map(x, state.s + state.s).size() > 0", VARIABLES).evaluate(
            {"state": HUGE, "event": EVENT}, Meter()
        )
    frames = [frame.f_code.co_name for frame, _ in walk_tb(raised.value.__traceback__)]
    assert frames == ["test_an_excess_keeps_nothing_alive_that_was_built", "evaluate"]
    assert raised.value.__context__ is None


def test_one_meter_counts_several_evaluations() -> None:
    expression = Expression("state.l.all(x, x >= 0)", VARIABLES)
    meter = Meter()
    assert expression.evaluate({"state": HUGE, "event": EVENT}, meter) is True
    assert meter.steps == 80_003
    with pytest.raises(BudgetExceeded):
        expression.evaluate({"state": HUGE, "event": EVENT}, meter)


def test_an_excess_that_no_input_avoids_is_known_beforehand() -> None:
    tens = "[0,1,2,3,4,5,6,7,8,9]"
    nested = f"{tens}.all(a, {tens}.all(b, {tens}.all(c, {tens}.all(d, {tens}.all(e, a + b + c + d + e >= 0)))))"
    assert Expression(nested, VARIABLES).excess(Meter()) is not None
    assert Expression(f"state.on && {nested}", VARIABLES).excess(Meter()) is None
    assert Expression("state.l.all(a, state.l.all(b, true))", VARIABLES).excess(Meter()) is None
    assert Expression("1 / 0 == 1", VARIABLES).excess(Meter()) is None


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("abc", 3, 10),
        ("[a-z]{4}", 4, 100),
        ("x{1000}", 1_000, 2_000),
        ("(x{10}){10}", 100, 300),
        ("((x{10}){10}){10}", 1_000, 3_000),
        ("x{0,1000}y{5,}", 1_005, 2_000),
        (r"\{1000\}", 1, 100),
        (r"[{1000}]", 1, 100),
        (r"\p{Greek}{10}", 2_000, 10_000),
        ("{5}(", 1, 100),
        ("[", 1, 10),
        ("\\", 1, 10),
        (")", 1, 10),
        (r"\p{", 1, 1_000),
    ],
)
def test_the_size_of_a_pattern_is_estimated_with_its_repetitions(pattern: str, least: int, most: int) -> None:
    assert least <= instructions(pattern) <= most
