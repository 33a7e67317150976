"""The JSON Schemas in Python: they are valid, and a body that validates is accepted."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError

from hivemem_contracts.artifacts.models import Base64, ContentType, Sha256
from hivemem_contracts.artifacts.names import ArtifactName
from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.documents.portable import portable
from hivemem_contracts.fields import Cursor
from hivemem_contracts.identifiers import AgentName, Id, Namespace, NamespacePrefix, NamespaceSuffix, Time
from hivemem_contracts.model import decode_body
from hivemem_contracts.operations import AnyOperation
from hivemem_contracts.sessions.models import StateKey
from hivemem_contracts.sessions.requests import IndexedKey
from hivemem_contracts.vectors.models import Collection
from hivemem_testing.names import GOOD_NAMES

from .schema_bodies import bodies, validates

SCHEMAS: Final = Path(__file__).resolve().parents[2] / "docs" / "schemas"
OPERATIONS: Final[list[AnyOperation]] = [operation for service in SERVICES for operation in service]

EXACT: Final[dict[str, Any]] = {
    "AgentName": AgentName,
    "Collection": Collection,
    "ContentType": ContentType,
    "Cursor": Cursor,
    "Id": Id,
    "IndexedKey": IndexedKey,
    "Namespace": Namespace,
    "NamespacePrefix": NamespacePrefix,
    "NamespaceSuffix": NamespaceSuffix,
    "Sha256": Sha256,
    "StateKey": StateKey,
}
"""The types whose schemas say all of their rules."""

ODD: Final = "aZ9:/.;-_ =+\\%\n\r\t\x00\x1f\x7f\x85\xa0\u1680\u2003\u2028\u202f\u3000\ufeff\u200bé🐝"
ENGINES_DIFFER: Final = re.compile(r"(?<!\\)\\[^xn.\\]|\(\?[^:]")
"""Classes by a letter, escapes other than `\\xNN`, look-around, named groups."""


def read(name: str) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8")))


def patterns(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        for keyword, value in cast("dict[str, object]", schema).items():
            if keyword == "pattern" and isinstance(value, str):
                yield value
            yield from patterns(value)
    elif isinstance(schema, list):
        for item in cast("list[object]", schema):
            yield from patterns(item)


def schema_of(type_: Any) -> dict[str, Any]:
    return portable(TypeAdapter[Any](type_).json_schema(), "#/$defs")


def is_accepted(adapter: TypeAdapter[Any], text: str) -> bool:
    try:
        adapter.validate_json(json.dumps(text), strict=True)
    except ValidationError:
        return False
    return True


def test_a_schema_is_valid_and_its_patterns_mean_the_same_everywhere() -> None:
    for file in SCHEMAS.iterdir():
        schema = read(file.stem)
        Draft202012Validator.check_schema(schema)
        assert not [pattern for pattern in patterns(schema) if ENGINES_DIFFER.search(pattern)], file.name


@pytest.mark.parametrize("name", EXACT)
@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(data=st.data())
def test_a_schema_accepts_exactly_the_texts_that_the_fleet_accepts(name: str, data: st.DataObject) -> None:
    schema = schema_of(EXACT[name])
    near = st.from_regex(schema["$defs"][name].get("pattern", ""), alphabet=st.characters(codec="utf-8"))
    odd = st.text(ODD, max_size=9)
    text = data.draw(near | odd | st.sampled_from(("user", "app:")).flatmap(lambda root: odd.map(root.__add__)))
    assert validates(schema, text) == is_accepted(TypeAdapter(EXACT[name]), text)


@pytest.mark.parametrize("text", GOOD_NAMES)
def test_the_schema_accepts_every_good_name_of_a_file(text: str) -> None:
    assert validates(schema_of(ArtifactName), text)


@pytest.mark.parametrize(
    "text", ["2026-01-31T09:30:00Z", "0001-01-01T00:00:00.000001-23:59", "2024-02-29T23:59:59+14:00"]
)
def test_the_schema_accepts_times_of_rfc_3339(text: str) -> None:
    assert validates(schema_of(Time), text)
    assert is_accepted(TypeAdapter(Time), text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-31",
        "2026-01-31T09:30:00",
        "2026-01-31T24:00:00Z",
        "2026-01-31T09:30:60Z",
        "2026-01-31T09:30:00Z\n",
        "5",
    ],
)
def test_the_schema_refuses_other_times(text: str) -> None:
    assert not validates(schema_of(Time), text)


@pytest.mark.parametrize("text", ["aGVsbG8", "aGVsbG8=\n", "aGVs bG8=", "_-__"])
def test_the_schema_refuses_other_forms_of_base64(text: str) -> None:
    assert not validates(schema_of(Base64), text)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.full_name)
@settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(data=st.data())
def test_a_body_that_validates_is_accepted(operation: AnyOperation, data: st.DataObject) -> None:
    body = data.draw(bodies(read(f"{operation.full_name}.request")))
    decode_body(operation.request, json.dumps(body).encode())
