"""The JSON Schemas in JavaScript: Ajv compiles them in its strict mode and agrees with the fleet, and generated types
compile."""

import json
from pathlib import Path
from typing import Any, Final

from hivemem_testing.javascript import javascript

SCHEMAS: Final = Path(__file__).resolve().parents[2] / "docs" / "schemas"
LINE_FEED: Final = "a\n"

CASES: Final[list[tuple[str, Any, bool]]] = [
    *(
        ("sessions.get.request", {"session_id": text}, valid)
        for text, valid in {
            "🐝" * 256: True,
            "🐝" * 257: False,
            "a\u3000b": True,
            "\ufeffa": True,
            "a\u3000": False,
            "a\x85": False,
            "a\x7fb": False,
            LINE_FEED: False,
        }.items()
    ),
    *(
        ("memory.get.request", {"namespace": text, "key": "k"}, valid)
        for text, valid in {"user:é": True, "user": False, "users:a": False, "user::a": False, "user:a ": False}.items()
    ),
    *(
        ("artifacts.stat.request", {"session_id": "s", "name": text}, valid)
        for text, valid in {".git/ü": True, "..": False, "a/../b": False, "a\\b": False, "a.": False}.items()
    ),
    ("sessions.get.request", {"session_id": "s", "at": "2026-01-31T09:30:00.000001Z"}, True),
    ("sessions.get.request", {"session_id": "s", "at": "2026-01-31T09:30:00"}, False),
    ("sessions.get.request", {"session_id": "s", "sesion": 1}, False),
    ("sessions.update.request", {"session_id": "s", "metadata": {}}, True),
    ("sessions.update.request", {"session_id": "s", "metadata": None}, False),
    ("sessions.state_get.request", {"scope": "user", "scope_id": "ann"}, True),
    ("sessions.state_get.request", {"scope": "user", "session_id": None}, False),
    ("sessions.state_get.request", {"scope": "user", "scope_id": "ann", "session_id": "s"}, False),
    ("sessions.state_set.request", {"session_id": "s", "key": "k", "value": [None]}, True),
    ("sessions.state_set.request", {"session_id": "s", "key": "k", "value": None, "keep_null": True}, True),
    ("sessions.state_set.request", {"session_id": "s", "key": "k", "value": 1, "keep_null": True}, False),
    ("sessions.list.request", {"where": {"k": 1}}, False),
    ("sessions.list.request", {"where": {"k": 1}, "app_name": "a"}, True),
    ("memory.audit.request", {"key": "k"}, False),
    ("memory.get.request", {"namespace": "user:a", "key": "k", "version": 1, "as_of": None}, True),
    ("memory.get.request", {"namespace": "user:a", "key": "k", "version": 1, "as_of": "2026-01-31T09:30:00Z"}, False),
    ("vectors.recall.request", {"query": "q", "rerank": True, "cursor": "c"}, False),
    ("vectors.recall.request", {"query": "\u2003", "weights": {}}, False),
    ("vectors.recall.request", {"query": "q", "weights": {"relevance": 0}}, False),
    ("vectors.recall.request", {"query": "q", "weights": {"relevance": 0, "recency": 1}}, True),
    ("vectors.recall.request", {"query": "q", "filter": {"metadata": {"k": True}}}, True),
    ("vectors.recall.request", {"query": "q", "filter": {"metadata": {" k": True}}}, False),
]


def test_ajv_is_strict_and_agrees(tmp_path: Path) -> None:
    cases = tmp_path / "cases.json"
    cases.write_text(json.dumps([(f"{name}.json", body, valid) for name, body, valid in CASES]), encoding="utf-8")
    assert json.loads(javascript(tmp_path).node("schemas.mjs", SCHEMAS, cases)) == []


def test_generated_types_compile(tmp_path: Path) -> None:
    types = tmp_path / "types"
    types.mkdir()
    program = javascript(tmp_path)
    program.node("generate.mjs", SCHEMAS, types)
    program.typescript(*types.iterdir())
