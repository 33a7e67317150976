"""The parser of CEL, which checks names and types on the way."""

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from hivemem_runtime.expressions.syntax import (
    Apply,
    Comprehension,
    Constant,
    ListOf,
    Logic,
    Macro,
    MapOf,
    Name,
    Node,
    Select,
    TypeName,
)
from hivemem_runtime.expressions.tokens import INTEGER_MAXIMUM, Token, refusal, tokens_of
from hivemem_runtime.expressions.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    TYPES,
    UINT,
    Inference,
    Type,
    list_of,
    map_of,
    overloads,
)

LENGTH: Final = 100_000
"""The most characters of an expression."""

DEPTH: Final = 32
"""The most nodes on the way from the root of a tree to a leaf, and the most brackets around anything."""


def parse(text: str, variables: tuple[str, ...]) -> Node:
    """Return the checked syntax tree of an expression. `ValueError` says what is wrong with it, and where."""
    if len(text) > LENGTH:
        raise ValueError(f"{len(text)} characters, {LENGTH} at most")
    return _Parser(text, variables).parsed()


class _Part(NamedTuple):
    """A parsed node, its type, and its depth."""

    node: Node
    type: Type
    depth: int


_RESERVED: Final = frozenset(
    {"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "namespace"}
    | {"package", "return", "var", "void", "while"}
)
_PACKAGES: Final = ("google", "google.protobuf")
_CONSTANTS: Final = {"string": STRING, "bytes": BYTES, "double": DOUBLE, "uint": UINT}
_WORDS: Final = {"true": (True, BOOL), "false": (False, BOOL), "null": (None, NULL)}
_OPERATORS: Final = (
    frozenset({"<", "<=", ">=", ">", "==", "!=", "in"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
"""The operators, the weakest first."""

_MACROS: Final = {"all": 2, "exists": 2, "exists_one": 2, "filter": 2, "map": 3}
"""The macros with the most arguments that they take."""

_ACCUMULATOR: Final = "__result__"


class _Parser:
    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._at = 0
        self._brackets = 0
        self._variables = variables
        self._scope: dict[str, Type] = dict.fromkeys(variables, DYN)
        self._types = Inference()

    def parsed(self) -> Node:
        part = self._expression()
        self._expect_end()
        return part.node

    # Tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _sees(self, *signs: str) -> bool:
        token = self._tokens[self._at]
        return token.kind == "sign" and token.text in signs

    def _takes(self, sign: str) -> bool:
        if self._sees(sign):
            self._at += 1
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise self._unexpected(f", but {sign!r}")

    def _expect_end(self) -> None:
        if self._next.kind != "end":
            raise self._unexpected("")

    def _unexpected(self, but: str) -> ValueError:
        token = self._next
        what = "the end" if token.kind == "end" else repr(token.text[:40])
        return self._refusal(token, f"{what} is not expected here{but}")

    def _refusal(self, token: Token, why: str) -> ValueError:
        return refusal(self._text, token.start, why)

    # Nodes

    def _part(self, token: Token, node: Node, type_: Type, *inner: _Part) -> _Part:
        depth = 1 + max((part.depth for part in inner), default=0)
        if depth > DEPTH:
            raise self._refusal(token, f"nested more than {DEPTH} levels deep")
        return _Part(node, type_, depth)

    def _call(self, token: Token, function: str, *arguments: _Part, method: bool = False) -> _Part:
        found = self._types.result(function, [part.type for part in arguments], method=method)
        if found is None:
            taken = " and ".join(str(self._types.resolved(part.type)) for part in arguments) or "empty brackets"
            raise self._refusal(token, f"{token.text!r} takes no {taken}")
        return self._part(token, Apply(function, tuple(part.node for part in arguments)), found, *arguments)

    # Operators, the weakest first

    def _expression(self) -> _Part:
        if self._brackets > DEPTH:
            raise self._refusal(self._next, f"nested more than {DEPTH} levels deep")
        self._brackets += 1
        part = self._logic("||")
        token = self._next
        if self._takes("?"):
            yes = self._logic("||")
            self._expect(":")
            part = self._call(token, "_?_:_", part, yes, self._expression())
        self._brackets -= 1
        return part

    def _logic(self, sign: str) -> _Part:
        first = self._next
        parts = [self._logic("&&") if sign == "||" else self._binary(0)]
        while self._sees(sign):
            first = self._take()
            parts.append(self._logic("&&") if sign == "||" else self._binary(0))
        if len(parts) == 1:
            return parts[0]
        for part in parts:
            self._check_condition(first, sign, part)
        return self._part(first, Logic(sign == "||", tuple(part.node for part in parts)), BOOL, *parts)

    def _check_condition(self, token: Token, sign: str, part: _Part) -> None:
        if not self._types.fits(part.type, BOOL):
            raise self._refusal(token, f"{sign!r} takes no {self._types.resolved(part.type)}")

    def _binary(self, level: int) -> _Part:
        if level == len(_OPERATORS):
            return self._unary()
        part = self._binary(level + 1)
        while self._next.kind == "sign" and self._next.text in _OPERATORS[level]:
            token = self._take()
            function = "@in" if token.text == "in" else f"_{token.text}_"
            part = self._call(token, function, part, self._binary(level + 1))
        return part

    def _unary(self) -> _Part:
        token = self._next
        if not self._sees("!", "-") or self._is_negative():
            return self._member()
        count = 0
        while self._sees(token.text):
            self._at += 1
            count += 1
        part = self._member()
        return self._call(token, f"{token.text}_", part) if count % 2 else part

    def _is_negative(self) -> bool:
        """Return whether a minus belongs to the number after it."""
        return self._sees("-") and self._tokens[self._at + 1].kind in ("int", "double")

    def _member(self) -> _Part:
        part = self._primary()
        while True:
            token = self._next
            if self._takes("["):
                place = self._expression()
                self._expect("]")
                part = self._call(token, "_[_]", part, place)
            elif self._takes("."):
                part = self._field_or_method(part)
            else:
                return part

    def _field_or_method(self, part: _Part) -> _Part:
        name = self._take()
        if name.kind not in ("name", "quoted"):
            self._at -= 1
            raise self._unexpected(", but a name")
        if name.kind == "name" and self._takes("("):
            return self._macro(name, part) or self._function(name, part)
        type_ = self._types.resolved(part.type)
        if type_.name == "map":
            selected = type_.inner[1]
        elif type_ == DYN or type_.name.startswith("?"):
            selected = DYN
        else:
            raise self._refusal(name, f"{type_} has no fields")
        return self._part(name, Select(part.node, name.text), selected, part)

    def _function(self, name: Token, *receiver: _Part) -> _Part:
        parts = [*receiver, *self._list(")", trailing_comma=False)]
        method = bool(receiver)
        if not overloads(name.text, len(parts), method=method):
            what = "a method" if method else "a function"
            raise self._refusal(name, f"{name.text!r} with {len(parts) - method} arguments is not {what} here")
        return self._call(name, name.text, *parts, method=method)

    def _list(self, end: str, *, trailing_comma: bool) -> list[_Part]:
        if self._takes(end):
            return []
        parts: list[_Part] = []
        if trailing_comma and self._takes(","):
            self._expect(end)
            return []
        while True:
            parts.append(self._expression())
            if not self._takes(","):
                break
            if trailing_comma and self._sees(end):
                break
        self._expect(end)
        return parts

    # Macros

    def _macro(self, name: Token, source: _Part) -> _Part | None:
        """Parse the arguments of a macro, or return None for any other method."""
        most = _MACROS.get(name.text)
        variable = self._next
        if most is None or variable.kind == "end" or self._tokens[self._at + 1].text != ",":
            return None
        if variable.kind != "name" or variable.text == _ACCUMULATOR or variable.text in _RESERVED:
            raise self._refusal(variable, f"{variable.text!r} is no name for a variable")
        self._at += 2
        bodies = self._bodies(name, variable.text, source)
        self._expect(")")
        if len(bodies) >= most:
            raise self._refusal(name, f"{name.text!r} with {len(bodies) + 1} arguments is no macro")
        macro = cast("Macro", name.text)
        item = bodies[-1] if macro == "map" else None
        condition = bodies[0] if len(bodies) == most - 1 else None
        if condition is not None:
            self._check_condition(name, name.text, condition)
        inner = [each.node if each else None for each in (condition, item)]
        loop = Comprehension(macro, variable.text, source.node, *inner)
        return self._part(name, loop, self._looped(macro, source, item), source, *bodies)

    def _bodies(self, name: Token, variable: str, source: _Part) -> list[_Part]:
        before = self._scope
        self._scope = {**before, variable: self._item(name, source)}
        bodies = [self._expression()]
        while self._takes(","):
            bodies.append(self._expression())
        self._scope = before
        return bodies

    def _item(self, name: Token, source: _Part) -> Type:
        type_ = self._types.resolved(source.type)
        if type_.name in ("list", "map"):
            return type_.inner[0]
        if type_ == DYN:
            return DYN
        unknown = type_.name.startswith("?")
        raise self._refusal(name, "the type of these items is unknown" if unknown else f"{type_} has no items")

    def _looped(self, macro: Macro, source: _Part, item: _Part | None) -> Type:
        if macro == "map":
            assert item is not None, "a map has an item"
            return list_of(item.type)
        if macro == "filter":
            type_ = self._types.resolved(source.type)
            return list_of(type_.inner[0] if type_.inner else DYN)
        return BOOL

    # Literals, names and brackets

    def _primary(self) -> _Part:
        token = self._next
        if token.kind in _CONSTANTS or token.kind == "int" or self._is_negative():
            return self._constant()
        if token.kind == "name" or self._sees("."):
            return self._named()
        if token.kind == "sign":
            if token.text in _WORDS:
                self._at += 1
                value, type_ = _WORDS[token.text]
                return self._part(token, Constant(value), type_)
            if self._takes("("):
                part = self._expression()
                self._expect(")")
                return part
            if self._takes("["):
                parts = self._list("]", trailing_comma=True)
                type_ = list_of(self._types.joined([part.type for part in parts]))
                return self._part(token, ListOf(tuple(part.node for part in parts)), type_, *parts)
            if self._takes("{"):
                return self._map(token)
        raise self._unexpected("")

    def _constant(self) -> _Part:
        negative = self._takes("-")
        token = self._take()
        if token.kind == "int":
            if token.value > INTEGER_MAXIMUM + negative:
                raise self._refusal(token, f"{token.text[:40]} is larger than any integer")
            return self._part(token, Constant(-token.value if negative else token.value), INT)
        value = -token.value if negative else token.value
        return self._part(token, Constant(value, unsigned=token.kind == "uint"), _CONSTANTS[token.kind])

    def _named(self) -> _Part:
        dot = self._takes(".")
        token = self._take()
        if token.kind != "name":
            self._at -= 1
            raise self._unexpected(", but a name")
        if token.text in _RESERVED:
            raise self._refusal(token, f"the word {token.text!r} is reserved")
        if self._takes("("):
            return self._has() if token.text == "has" and not dot else self._function(token)
        if dot and token.text in self._variables:
            return self._part(token, Name(f".{token.text}"), DYN)
        if not dot and token.text in self._scope:
            return self._part(token, Name(token.text), self._scope[token.text])
        return self._type_name(token)

    def _type_name(self, token: Token) -> _Part:
        name = token.text
        while name in _PACKAGES and self._sees(".") and self._tokens[self._at + 1].kind == "name":
            self._at += 1
            name = f"{name}.{self._take().text}"
        if name not in TYPES or self._sees("{"):
            known = ", ".join(sorted(self._scope)) or "none"
            raise self._refusal(token, f"no variable or type is named {name[:100]!r}; the variables are: {known}")
        return self._part(token, TypeName(name), Type("type", (TYPES[name],)))

    def _has(self) -> _Part:
        token = self._next
        part = self._expression()
        self._expect(")")
        if not isinstance(part.node, Select) or part.node.test:
            raise self._refusal(token, "'has' takes a field, such as state.name")
        return self._part(token, Select(part.node.operand, part.node.field, test=True), BOOL, part)

    def _map(self, token: Token) -> _Part:
        keys: list[_Part] = []
        values: list[_Part] = []
        if self._takes(","):
            self._expect("}")
            return self._finished_map(token, keys, values)
        while not self._takes("}"):
            keys.append(self._expression())
            self._expect(":")
            values.append(self._expression())
            if not self._takes(","):
                self._expect("}")
                break
        return self._finished_map(token, keys, values)

    def _finished_map(self, token: Token, keys: Sequence[_Part], values: Sequence[_Part]) -> _Part:
        types = [self._types.joined([part.type for part in parts]) for parts in (keys, values)]
        entries = tuple((key.node, value.node) for key, value in zip(keys, values, strict=True))
        return self._part(token, MapOf(entries), map_of(*types), *keys, *values)
