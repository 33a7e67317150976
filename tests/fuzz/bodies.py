"""Valid bodies of any operation, generated from the JSON Schema of its request."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, cast

from hivemem_contracts.operations import AnyOperation

from .expressions import expression

Json = Any
Schema = Mapping[str, Any]

DESTRUCTIVE: Final = frozenset(
    ("delete", "delete_batch", "terminate", "archive", "set_status", "erase", "abort", "workspace_delete", "clear")
)
"""These operations use names of their own, so that the others find their objects."""

IDS: Final = tuple(f"s{number}" for number in range(24))
NAMESPACES: Final = ("user:ann", "user:ann:notes", "app:crm", "project:p1:a", "session:s1", "temp:x", "user:ünï")
WORKSPACES: Final = ("w1", "w2")
GONE_WORKSPACE: Final = "w3"
TIMES: Final = ("2026-01-31T09:30:00Z", "2031-01-01T00:00:00+02:00", "2024-02-29T23:59:59.999999Z")
BASE64: Final = tuple(
    base64.b64encode(data).decode() for data in (b"", b"hello", bytes(range(256)), b"\x89PNG\r\n\x1a\n")
)

POOLS: Final[Mapping[str, Sequence[str]]] = {
    "session_id": IDS,
    "new_session_id": tuple(f"f{number}" for number in range(200)),
    "namespace": NAMESPACES,
    "into": tuple(f"user:into{number}" for number in range(200)),
    "prefix": ("user", "user:ann", "app", "project:p1", "temp"),
    "namespace_prefix": ("user", "user:ann", "app:crm"),
    "key": tuple(f"k{number}" for number in range(12)),
    "name": ("a.txt", "b/c.bin", "machine", "ü.md"),
    "event": ("go", "stop"),
    "type": ("go", "stop", "message"),
    "from": ("a", "b"),
    "to": ("a", "b"),
    "initial": ("a", "b"),
    "states": ("a", "b", "c"),
    "machine": ("machine", "m1"),
    "run_id": tuple(f"run{number}" for number in range(9)),
    "step": ("a", "b", "end"),
    "id": ("a", "b", "chat", "step-1", "step-2", "step-3", "look", "book", "pay", "send", "wait", "ask"),
    "author": ("bot", "ann"),
    "sha256": ("0" * 64, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"),
    "content_type": ("text/plain", "application/json; charset=utf-8"),
    "data_base64": BASE64,
    "workspace_id": WORKSPACES,
    "path": ("a.txt", "b/c.bin", "ü.md"),
    "target": ("a.txt", "../c.bin", "."),
    "collection": ("default", "c1", "c-2"),
    "query": ("what does ann like", "ünï", "x", "go " * 500),
    "app_name": ("crm",),
    "user_id": ("ann", "bob"),
    "project_id": ("p1",),
    "scope_id": ("ann", "crm", "p1"),
    "state_indexes": ("l", "s", "n", "x"),
    "operation": ("put", "deleted", "export"),
    "resource": ("chat",),
    "message_id": ("m0", "m1", "m2", "m3"),
    "role": ("user", "system", "tool"),
    "redact": ("email", "card"),
    "token_provider": ("estimate", "openai:o200k"),
}
WORDS: Final = (
    "x",
    "hello",
    "two words",
    "ünï",
    "日本",
    "a.b",
    "k%",
    "user:name",
    "app:theme",
    "temp:t",
    "l",
    "s",
    "n",
)
SMALL: Final = (0, 1, 2, 3, 7, 50, 100, 1_000)
WAITS_MS: Final = (0, 1, 50)
OPTIONAL_SHARE: Final = 0.4
DEPTH: Final = 3


@dataclass
class Known:
    """Values that the fleet answers before the cases begin, such as ids, which no generator could guess."""

    cursors: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    upload_ids: list[str] = field(default_factory=lambda: ["none"])
    receipts: list[str] = field(default_factory=lambda: ["none"])
    chunk_subjects: list[str] = field(default_factory=list[str])


class Bodies:
    """The valid bodies of one operation."""

    def __init__(self, operation: AnyOperation, known: Known) -> None:
        self._operation = operation.full_name
        self.schema: Schema = operation.request.model_json_schema()
        self._definitions: Mapping[str, Schema] = self.schema.get("$defs", {})
        self._pools = {**POOLS, "upload_id": known.upload_ids, "receipt": known.receipts}
        if operation.name in DESTRUCTIVE:
            self._pools |= {"session_id": ("d1", "d2", "d3"), "namespace": ("temp:gone",), "upload_id": ("none",)}
            self._pools |= {"workspace_id": (GONE_WORKSPACE,), "resource": ("gone",)}
        cursors = known.cursors.get(operation.full_name)
        if cursors:
            self._pools["cursor"] = cursors

    def make(self, random: Random) -> dict[str, Json]:
        body = cast("dict[str, Json]", self._value(self.schema, "", random, 0))
        if "min_version" in body:
            body["wait_ms"] = random.choice(WAITS_MS)
        if self._operation == "sessions.update" and body.get("metadata") is None is body.get("project_id"):
            body["metadata"] = {random.choice(WORDS): random.choice(SMALL)}
        if self._operation == "artifacts.begin":
            body |= {"session_id": random.choice(IDS), "name": random.choice(POOLS["name"]), "workspace_id": None}
            if random.random() < 0.5:
                body |= {"session_id": None, "name": None, "workspace_id": random.choice(WORKSPACES)}
        if self._operation == "artifacts.workspace_commit":
            body |= {"files": body.get("files") or [], "list_sha256": None}
        return body

    def _value(self, schema: Schema, name: str, random: Random, depth: int) -> Json:
        while "$ref" in schema or "anyOf" in schema or "oneOf" in schema:
            if "$ref" in schema:
                schema = self._definitions[schema["$ref"].rpartition("/")[2]]
            else:
                schema = random.choice(schema.get("anyOf") or schema["oneOf"])
        if "enum" in schema or "const" in schema:
            return random.choice(schema.get("enum") or [schema["const"]])
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema, name, random, depth)
        if kind == "array":
            least = schema.get("minItems", 0)
            count = random.randint(least, max(least, min(3, schema.get("maxItems", 3))))
            return [self._value(schema.get("items", {}), name, random, depth + 1) for _ in range(count)]
        return self._string(schema, name, random) if kind == "string" else plain(schema, name, random, depth)

    def _object(self, schema: Schema, name: str, random: Random, depth: int) -> dict[str, Json]:
        required = schema.get("required", ())
        made = {
            field: self._value(inner, field, random, depth + 1)
            for field, inner in schema.get("properties", {}).items()
            if field in required or (field != "cursor" and random.random() < OPTIONAL_SHARE) or random.random() < 0.1
        }
        inner = schema.get("additionalProperties") or next(iter(schema.get("patternProperties", {}).values()), None)
        if inner:
            of = cast("Schema", {} if inner is True else inner)
            made |= {random.choice(WORDS): self._value(of, name, random, depth + 1) for _ in range(random.randrange(4))}
        return made

    def _string(self, schema: Schema, name: str, random: Random) -> str:
        if name == "when":
            return expression(random)
        if schema.get("format") == "date-time":
            return random.choice(TIMES)
        return random.choice(self._pools.get(name, WORDS[:5]))


def plain(schema: Schema, name: str, random: Random, depth: int) -> Json:
    """Return a number within its limits, a boolean or null, or any JSON if no type is stated."""
    match schema.get("type"):
        case "boolean":
            return random.random() < 0.5
        case "null":
            return None
        case "integer" | "number" as kind:
            least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            most = WAITS_MS[-1] if name == "wait_ms" else schema.get("maximum", 1_000)
            found = random.choice(SMALL) if kind == "integer" else random.random() + 1e-9
            return min(most, max(least, found))
        case _:
            return anything(random, depth)


def anything(random: Random, depth: int = 0) -> Json:
    """Return any JSON value, of a small size."""
    kind = random.randrange(5 if depth >= DEPTH else 7)
    if kind == 5:
        return [anything(random, depth + 1) for _ in range(random.randrange(4))]
    if kind == 6:
        return {random.choice(WORDS): anything(random, depth + 1) for _ in range(random.randrange(4))}
    return (None, True, random.choice(SMALL), random.random(), random.choice(WORDS))[kind]
