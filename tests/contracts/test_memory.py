"""Memories on the wire: the operations, their bodies, namespaces and prefixes, and the subjects of their changes."""

import inspect
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from hivemem_contracts.errors import InvalidRequest, TooLarge
from hivemem_contracts.identifiers import NAMESPACE_ROOTS, Namespace, NamespacePrefix, covers
from hivemem_contracts.limits import BATCH_ITEMS, MEMORY_VALUE_BYTES, VALUE_BYTES
from hivemem_contracts.memory import requests
from hivemem_contracts.memory.changes import CHANGES, MemoryErased
from hivemem_contracts.memory.models import ErasureReceipt, LeaseHolder, Memory, MemoryVersion
from hivemem_contracts.memory.operations import MEMORY
from hivemem_contracts.memory.replies import MemoryOutcome, MemoryWritten
from hivemem_contracts.memory.requests import (
    AcquireLease,
    CountMemories,
    DiffNamespace,
    EraseMemories,
    ExportMemories,
    GetMemory,
    ImportMemories,
    ListMemories,
    PatchMemory,
    PutMemories,
    PutMemory,
    ReadAudit,
    RenewLease,
)
from hivemem_contracts.model import decode_body
from hivemem_contracts.subjects import (
    Address,
    change_filters,
    change_prefix,
    change_subject,
    command_subject,
    namespace_tokens,
    parse_change_subject,
)

NAMESPACES = TypeAdapter[str](Namespace)
PREFIXES = TypeAdapter[str](NamespacePrefix)

# A field with a `?` is optional.
REQUESTS = {
    "put": "namespace key value memory_type? metadata? importance? valid_from? valid_to? expires_at? source? index? "
    "expect_version? lease?",
    "patch": "namespace key patch source? expect_version? lease?",
    "put_batch": "puts",
    "get": "namespace key version? as_of? include_deleted?",
    "get_many": "keys",
    "delete": "namespace key source? expect_version? lease?",
    "delete_batch": "deletes",
    "restore": "namespace key version? source? expect_version? lease?",
    "history": "namespace key diff? limit? cursor?",
    "list": "prefix memory_type? created_by? updated_after? valid_at? where? include_deleted? sort? limit? cursor?",
    "count": "prefix memory_type? created_by? include_deleted?",
    "namespaces": "prefix? suffix? depth? limit? cursor?",
    "snapshot": "namespace as_of? limit? cursor?",
    "diff": "namespace from to limit? cursor?",
    "fork": "namespace into as_of?",
    "lease": "namespace key? ttl_ms wait_ms?",
    "renew": "namespace key? token ttl_ms?",
    "release": "namespace key? token",
    "audit": "namespace? key? actor? operation? task_id? since? until? limit? cursor?",
    "audit_verify": "cursor?",
    "erase": "namespace key?",
    "erasure": "receipt",
    "erase_confirm": "receipt worker removed",
    "export": "prefix as_of? limit? cursor?",
    "import": "items existing?",
}
ROUTES = {
    "put": "namespace",
    "patch": "namespace",
    "put_batch": None,
    "delete": "namespace",
    "delete_batch": None,
    "restore": "namespace",
    "fork": "into",
    "erase": "namespace",
    "erase_confirm": "receipt",
    "import": None,
}
ONLY_REQUESTED = {"lease", "renew", "release"}
INNER = {requests.ImportedMemory}

segments = st.text(st.sampled_from("ab.%k*> é"), min_size=1, max_size=3)
namespaces = st.tuples(st.sampled_from(["user", "app"]), st.lists(segments, max_size=3)).map(
    lambda made: ":".join([made[0], *made[1]])
)


def fields_of(model: type[BaseModel]) -> str:
    return " ".join(
        (field.serialization_alias or name) + ("" if field.is_required() else "?")
        for name, field in model.model_fields.items()
    )


def is_good(adapter: TypeAdapter[str], value: object) -> bool:
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


def refused(model: type[BaseModel], body: dict[str, Any]) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        decode_body(model, json.dumps(body).encode())
    return caught.value


def put(**fields: Any) -> dict[str, Any]:
    return {"namespace": "user:alice", "key": "k", "value": 1, **fields}


def test_the_operations_are_those_of_the_contract() -> None:
    assert {operation.name: fields_of(operation.request) for operation in MEMORY} == REQUESTS


def test_writes_and_their_routes_are_those_of_the_contract() -> None:
    assert {operation.name: operation.route for operation in MEMORY if operation.durable} == ROUTES
    assert {operation.name for operation in MEMORY if operation.writes and not operation.durable} == ONLY_REQUESTED


def test_every_request_of_the_service_belongs_to_an_operation() -> None:
    def declared(member: Any) -> bool:
        return inspect.isclass(member) and member.__module__ == requests.__name__

    models = {model for _, model in inspect.getmembers(requests, declared)}
    assert models == {operation.request for operation in MEMORY} | INNER


def test_one_of_a_batch_says_what_a_single_put_says_or_the_error() -> None:
    assert fields_of(MemoryOutcome).split() == [f"{name}?" for name in [*MemoryWritten.model_fields, "error"]]


def test_a_version_says_what_the_memory_said_then_and_what_made_it() -> None:
    own = ["operation", "request_id", "diff", "diff_omitted"]
    assert [name for name in MemoryVersion.model_fields if name not in Memory.model_fields] == own


def test_the_kinds_of_change_are_those_of_the_contract() -> None:
    values = {kind.full_name: kind.value for kind in CHANGES}
    memory = {f"memory.{operation}": Memory for operation in ("put", "deleted", "restored")}
    leases = ("acquired", "renewed", "released", "expired", "awaited")
    erasures = {f"erasure.{operation}": ErasureReceipt for operation in ("removed", "done")}
    lease = {f"lease.{name}": LeaseHolder for name in leases}
    assert values == memory | {"memory.erased": MemoryErased} | erasures | lease
    keyed = [kind for kind in CHANGES if kind.entity != "erasure"]
    assert all(kind.address == ("namespace", "key") and kind.keyed for kind in keyed)
    assert all(kind.key_optional == (kind.entity == "lease") for kind in CHANGES)


@pytest.mark.parametrize("root", NAMESPACE_ROOTS)
def test_a_prefix_is_a_namespace_or_the_beginning_of_one(root: str) -> None:
    for good in (root, f"{root}:alice", f"{root}:alice:preferences", f"{root}:%k:>"):
        assert is_good(PREFIXES, good)
    for bad in (f"{root}:", f"{root}::a", f"{root}s", f":{root}", f"{root}:a ", root.upper(), "", "alice", 5, None):
        assert not is_good(PREFIXES, bad)


@given(namespaces)
def test_what_is_a_namespace_is_a_prefix(value: str) -> None:
    if is_good(NAMESPACES, value):
        assert is_good(PREFIXES, value)


@pytest.mark.parametrize(
    ("prefix", "namespace", "covered"),
    [
        ("user", "user:alice", True),
        ("user:alice", "user:alice", True),
        ("user:alice", "user:alice:preferences", True),
        ("user:alice", "user:alicex", False),
        ("user:alice:preferences", "user:alice", False),
        ("use", "user:alice", False),
        ("user:al", "user:alice", False),
        ("app", "user:app", False),
    ],
)
def test_a_prefix_covers_whole_segments(prefix: str, namespace: str, covered: bool) -> None:
    assert covers(prefix, namespace) is covered


@given(namespaces, namespaces, st.none() | segments)
def test_a_prefix_covers_exactly_what_its_filters_on_the_feed_match(
    prefix: str, namespace: str, key: str | None
) -> None:
    subject = change_subject("acme", "memory", Address(tuple(namespace.split(":")), key))
    exact, below = change_filters("acme", change_prefix("memory", *prefix.split(":")))
    followed = subject == exact or subject.startswith(below.removesuffix(">"))
    assert followed == covers(prefix, namespace)


@pytest.mark.parametrize(
    "namespace", ["user:%k", "user:a.b:>", "user:*:%k:k", "user: é", "project:\u202e:🐝", "temp:%:%%k"]
)
def test_a_hostile_namespace_stays_in_its_tokens(namespace: str) -> None:
    for key in ("%k", ".", ">", "a:b", "user:alice", "🐝"):
        address = Address(tuple(namespace.split(":")), key)
        subject = change_subject("acme", "memory", address)
        assert len(subject.split(".")) == 4 + len(namespace_tokens(namespace)) + 2
        assert parse_change_subject(subject) == ("acme", "memory", address)
        assert len(command_subject("acme", "a", "memory", "put", namespace).split(".")) == 7


@pytest.mark.parametrize(
    "namespace",
    ["alice", "tenant:alice", "user", "user:", "user::a", "user:a\x01b", "user:a\x02", "user:a:", " user:a"],
)
def test_what_is_no_namespace_is_refused_by_its_field(namespace: str) -> None:
    assert refused(PutMemory, put(namespace=namespace)).context["field"] == "namespace"
    lease = {"namespace": namespace, "token": 1}
    assert refused(PutMemory, put(lease=lease)).context["field"] == "lease.namespace"


@pytest.mark.parametrize(
    ("model", "body", "field"),
    [
        (PutMemory, {"namespace": "user:a", "key": "k"}, "value"),
        (PutMemory, put(key=" k"), "key"),
        (PutMemory, put(memory_type="vague"), "memory_type"),
        (PutMemory, put(importance=1.01), "importance"),
        (PutMemory, put(importance=True), "importance"),
        (PutMemory, put(valid_from="2026-01-31T09:30:00"), "valid_from"),
        (PutMemory, put(metadata=[]), "metadata"),
        (PutMemory, put(source={"cycle": 0}), "source.cycle"),
        (PutMemory, put(source={"task": "t"}), "source.task"),
        *((PutMemory, put(index=wrong), "index") for wrong in (True, 0, "a text", [], ["a"] * 101)),
        *((PutMemory, put(index=["a", wrong]), "index.1") for wrong in ("", " ", 1, None, False)),
        (PutMemory, put(expect_version=-1), "expect_version"),
        (PutMemory, put(lease={"namespace": "user:a", "token": 0}), "lease.token"),
        (PutMemory, put(tenant="other"), "tenant"),
        (PutMemories, {"puts": []}, "puts"),
        (PutMemories, {"puts": [put(), put(kye=1)]}, "puts.1.kye"),
        (PutMemories, {"puts": [put()] * (BATCH_ITEMS + 1)}, "puts"),
        (GetMemory, {"namespace": "user:a", "key": "k", "version": 0}, "version"),
        (ListMemories, {"prefix": "user:a:"}, "prefix"),
        (ListMemories, {"prefix": "user", "sort": "updated_at"}, "sort"),
        (ListMemories, {"prefix": "user", "limit": 1_001}, "limit"),
        (CountMemories, {}, "prefix"),
        (DiffNamespace, {"namespace": "user", "to": "2026-01-31T09:30:00Z"}, "from"),
        (DiffNamespace, {"namespace": "user", "start": "2026-01-31T09:30:00Z"}, "from"),
        (AcquireLease, {"namespace": "user:a"}, "ttl_ms"),
        (AcquireLease, {"namespace": "user:a", "ttl_ms": 99}, "ttl_ms"),
        (AcquireLease, {"namespace": "user:a", "ttl_ms": 3_600_001}, "ttl_ms"),
        (AcquireLease, {"namespace": "user:a", "ttl_ms": 1_000, "wait_ms": 300_001}, "wait_ms"),
        (AcquireLease, {"namespace": "user:a", "key": "", "ttl_ms": 1_000}, "key"),
        (RenewLease, {"namespace": "user:a"}, "token"),
        (ReadAudit, {"namespace": "nowhere"}, "namespace"),
        (EraseMemories, {"namespace": "user"}, "namespace"),
        (ExportMemories, {"prefix": ""}, "prefix"),
        (ImportMemories, {"items": [put()], "existing": "ask"}, "existing"),
        (ImportMemories, {"items": [put(version=3)]}, "items.0.version"),
    ],
)
def test_the_first_wrong_field_is_named(model: type[BaseModel], body: dict[str, Any], field: str) -> None:
    assert refused(model, body).context["field"] == field


def test_what_is_left_out_is_not_what_is_null() -> None:
    """A put keeps fields that it omits, and removes fields that it sets to null."""
    body = decode_body(PutMemory, json.dumps(put(importance=None)).encode())
    assert "importance" in body.model_fields_set
    assert "expires_at" not in body.model_fields_set


def test_the_words_of_python_are_not_those_of_the_wire() -> None:
    moments = {"from": "2026-01-31T09:30:00Z", "to": "2026-01-31T10:30:00Z"}
    body = decode_body(DiffNamespace, json.dumps({"namespace": "user", **moments}).encode())
    assert (body.start, body.end) == (
        datetime(2026, 1, 31, 9, 30, tzinfo=UTC),
        datetime(2026, 1, 31, 10, 30, tzinfo=UTC),
    )
    assert body == DiffNamespace(namespace="user", start=body.start, end=body.end)
    sent = json.loads(body.model_dump_json(exclude_unset=True))
    assert sent == {"namespace": "user", "from": "2026-01-31T09:30:00.000000Z", "to": "2026-01-31T10:30:00.000000Z"}


def text_of(size: int) -> str:
    """Return a text that takes `size` bytes as JSON, with its quotes."""
    return "x" * (size - 2)


SIZES: list[tuple[type[BaseModel], Callable[[int], dict[str, Any]], str, int]] = [
    (PutMemory, lambda size: put(value=text_of(size)), "value", MEMORY_VALUE_BYTES),
    (PutMemory, lambda size: put(metadata={"k": text_of(size - 6)}), "metadata", VALUE_BYTES),
    (
        PatchMemory,
        lambda size: {"namespace": "user:a", "key": "k", "patch": text_of(size)},
        "patch",
        MEMORY_VALUE_BYTES,
    ),
    (PutMemories, lambda size: {"puts": [put(), put(value=text_of(size))]}, "puts.1.value", MEMORY_VALUE_BYTES),
    (ImportMemories, lambda size: {"items": [put(value=text_of(size))]}, "items.0.value", MEMORY_VALUE_BYTES),
]


@pytest.mark.parametrize(
    ("model", "body", "field", "limit"), SIZES, ids=[f"{case[0].__name__}-{case[2]}" for case in SIZES]
)
def test_a_value_of_the_limit_passes_and_one_byte_more_is_refused(
    model: type[BaseModel], body: Callable[[int], dict[str, Any]], field: str, limit: int
) -> None:
    decode_body(model, json.dumps(body(limit)).encode())
    with pytest.raises(TooLarge) as caught:
        decode_body(model, json.dumps(body(limit + 1)).encode())
    assert caught.value.context == {"field": field, "limit": limit, "actual": limit + 1}
