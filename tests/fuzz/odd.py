"""Values, bodies and header blocks that no correct program sends, made by mutation of valid ones."""

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, cast

from hivemem_testing.raw_nats import HEADER_BLOCKS

Json = Any

NUMBERS: Final = (
    *(0, -1, 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30, 10**400),
    *(0.5, -0.0, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf")),
)
TEXTS: Final = (
    *(
        "",
        " ",
        "a ",
        "\0",
        "a\0b",
        "\ud800",
        "a\udfffb",
        "\udc00\ud800",
        "\u202eb",
        "e\u0301",
        "\U0001d54f",
        "ﷺ",
        "\ufeff",
        "\n",
    ),
    *("../..", "/", "a//b", "%", "%k", "%zz", ".", "*", ">", "a.b", ":", "user:", ":a", "user::a", "root:a", "user"),
    *("$where", "__proto__", "'; DROP TABLE heads; --", "x" * 256, "x" * 257, "ü" * 256, "ü" * 3_000, "x" * 20_000),
    *("2026-13-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+14:00", "2026-01-01T00:00:00"),
    *("1970-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "1969-12-31T23:59:59.999999Z", "now", "1", "true", "NaN"),
    *("user:" + "a:" * 500 + "a", "user:" + "ü" * 250, "CON", "a\\b", "\uff0f", "c1-1", "AAAA", "====", "W10", "WzFd"),
)
KEYS: Final = ("", "\0", "\ud800", "a.b", "$set", "__proto__", "extra", "Session_id", "temp:", "user:", "x" * 300, "é")


TOKENS: Final = (
    *(b"\xff", b"%", b"%zz", b"%41", b"%C3", b"%ED%A0%80", b"a%", b"\0", b"a\x0bb"),
    *(b"x" * 900, b"x" * 2_100, b"x" * 3_400),
)
"""Tokens for the tenant and the agent of a subject; some are too long for an answer."""


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    return opening * depth + closing * depth


def odd_value(random: Random) -> Json:
    kind = random.randrange(8)
    if kind < 2:
        return random.choice(NUMBERS)
    if kind < 5:
        return random.choice(TEXTS)
    if kind == 5:
        return json.loads(random.choice(("null", "true", "false", "[]", "{}", "[[]]", "[null]", '{"a":null}')))
    if kind == 6:
        return {random.choice(KEYS): random.choice(TEXTS) for _ in range(random.randrange(1, 4))}
    size = random.choice((2, 20, 101, 1_001))
    return json.loads(nested(size)) if size < 200 else [random.choice(NUMBERS[:3])] * size


def _names(value: Json) -> list[Any]:
    """Return the names or numbers of the items of an object or an array; other values have none."""
    if isinstance(value, dict):
        return list(cast("dict[str, Json]", value))
    return list(range(len(cast("Sequence[Json]", value)))) if isinstance(value, list) else []


def places(value: Json, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return every item of a body, as its container and its name or number in it."""
    for name in _names(value):
        found.append((value, name))
        places(value[name], found)
    return found


def boundary(schema: Mapping[str, Any], name: object, random: Random) -> Json:
    """Return a number or a text at a limit of the schema, or just past it."""
    stated = schema.get("properties", {}).get(name, {})
    for branch in (stated, *stated.get("anyOf", ())):
        for limit, item in (("maximum", None), ("minimum", None), ("maxLength", "x"), ("maxItems", [0])):
            if limit in branch and random.random() < 0.7:
                edge = min(branch[limit], 1_500_000) if item else branch[limit]
                # A valid wait at its limit would take minutes.
                size = edge + (1 if name == "wait_ms" else random.choice((-1, 0, 1)))
                return item * size if item else size
    return odd_value(random)


def mutated(body: dict[str, Json], schema: Mapping[str, Any], random: Random) -> dict[str, Json]:
    """Change the body in place so that it is wrong, or odd but valid, and return it."""
    found = places(body, [])
    kind = random.randrange(7)
    if kind == 0 or not found:
        body[random.choice(KEYS)] = odd_value(random)
        return body
    container, name = random.choice(found)
    if kind == 1:
        del container[name]
    elif kind == 2 and isinstance(name, str):
        container[name[:-1] + random.choice("sS_\0é")] = container.pop(name)
    elif kind == 3:
        container[name] = [container[name]]
    elif kind == 4:
        container[name] = boundary(schema, name, random)
    else:
        container[name] = odd_value(random)
    return body


def _flipped(data: bytes, random: Random) -> bytes:
    place = random.randrange(len(data) + 1)
    return data[:place] + bytes((random.randrange(256),)) + data[place + random.randrange(2) :]


def _repeated(data: bytes, random: Random) -> bytes:
    return b"{" + b",".join((data[1:-1] or b'"a":1',) * random.choice((2, 3))) + b"}"


def _deep(data: bytes, random: Random) -> bytes:
    depth = random.choice((99, 100, 101, 127, 128, 200, 255, 256, 1_000, 10_000, 100_000))
    deep = random.choice((nested(depth), nested(depth, '{"a":', "}").replace("}", "1}", 1), "[" * depth))
    place = data.find(b":") + 1
    return data[:place] + deep.encode() + b"," + data[place:] if random.random() < 0.5 else deep.encode()


RAW: Final[Sequence[Callable[[bytes, Random], bytes]]] = (
    _flipped,
    _flipped,
    _repeated,
    _deep,
    lambda data, random: data[: random.randrange(len(data) + 1)],
    lambda data, random: random.randbytes(random.randrange(64)),
    lambda data, random: b"",
    lambda data, random: b"[" + data + b"]",
    lambda data, random: random.choice(
        (b"null", b"1", b'"x"', b"[]", b"{}", b"NaN", b" ", b"\0", b"true", b"-", b"{]")
    ),
    lambda data, random: b"\xef\xbb\xbf" + data,
    lambda data, random: data + random.choice((b"\0", b"{}", b" \r\n\t", b"//", b",", b"\xff")),
    lambda data, random: data.decode("latin-1").encode("utf-16"),
    lambda data, random: data.replace(b'"', b"'"),
    lambda data, random: data.replace(
        b":", b":" + random.choice((b"1e999", b"0x1", b"01", b"+1", b"\xc3\x28")) + b",", 1
    ),
)


def odd_bytes(data: bytes, random: Random) -> bytes:
    """Return a body that is mostly no JSON any more."""
    return random.choice(RAW)(data, random)


def huge_bytes(size: int, random: Random) -> bytes:
    """Return a body of `size` bytes that is JSON or nearly so."""
    start, item, end = random.choice((('{"', "k", '":1}'), ('{"value":"', "x", '"}'), ("[", "0,", "0]"), ("", "[", "")))
    return (start + item * (size // len(item))).encode()[: size - len(end)] + end.encode()


NAMES: Final = (
    *(b"Nats-Msg-Id", b"Hive-Msg-Id", b"traceparent", b"Hive-Chunk", b"Hive-Chunk-Crc32", b"Status", b"Nats-Pin-Id"),
    *(b"content-type", b"\xff", b"", b"x" * 300, b"a b", b"Nats-Service-Error-Code", b"Hive-Signature"),
)
VALUES: Final = (
    *(
        b"",
        b"1",
        b"0",
        b"-1",
        b"99999999999999999999",
        b"x:y",
        b"\xff\xfe",
        b"\0",
        b"x" * 256,
        b"x" * 257,
        b"404",
        b"\t",
    ),
    *(
        b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        b"\xc2\xa0",
        "ü".encode(),
        b"x" * 20_000,
        b"7:999999",
    ),
    *(b"\xed\xa0\x80", b"%s%n", b"0x10", b"1_0", "٣".encode(), b"1e3", b"00000000", b"ffffffff"),
)


def odd_headers(random: Random) -> bytes:
    """Return a header block of odd lines, mostly readable; the server accepts any bytes."""
    if random.random() < 0.2:
        return random.choice(HEADER_BLOCKS)
    lines = [random.choice(NAMES) + b": " + random.choice(VALUES) for _ in range(random.choice((1, 1, 2, 5, 50)))]
    block = b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
    return block if random.random() < 0.8 else _flipped(block, random)
