"""The registry of operations equals a hand-written copy of the contract."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from hivemem_contracts import errors
from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.limits import LIST_MAXIMUM
from hivemem_contracts.operations import AnyOperation, Operation, ServiceContract
from hivemem_contracts.sessions import requests
from hivemem_contracts.sessions.models import NewEvent, Session
from hivemem_contracts.sessions.operations import CREATE, SESSIONS
from hivemem_contracts.sessions.replies import AppendOutcome

# A field with a `?` is optional.
SESSION_REQUESTS = {
    "create": "session_id? app_name user_id project_id? initial_state? state_nulls? metadata? machine?",
    "get": "session_id events? revision? at?",
    "append": "session_id event state_delta? state_nulls? expect_revision?",
    "append_batch": "appends",
    "events": "session_id after? before? since? until? type? author? limit? cursor? reverse?",
    "state_get": "session_id? scope? scope_id? key?",
    "state_set": "session_id key value keep_null? expect_revision?",
    "update": "session_id metadata? project_id? expect_revision?",
    "set_status": "session_id status",
    "terminate": "session_id",
    "archive": "session_id",
    "delete": "session_id",
    "fork": "session_id revision? new_session_id?",
    "shared": "session_ids",
    "list": "status? user_id? app_name? project_id? active? sort? where? limit? cursor?",
    "app_put": "app_name state_indexes",
    "app_get": "app_name",
    "machine_put": "name definition expect_version?",
    "machine_get": "name version?",
}
SESSION_REPLIES = {
    "get": "session events cut? cursor?",
    "append": "session_id event_id sequence revision duplicate",
    "append_batch": "results",
    "events": "items cursor",
    "state_get": "state? value? exists? revision",
    "state_set": "session_id key revision duplicate",
    "delete": "session_id revision deleted_at duplicate?",
    "shared": "session_ids",
    "list": "items cursor",
    "app_put": "app_name state_indexes pending duplicate?",
    "app_get": "app_name state_indexes pending",
    "machine_put": "name version definition created_at created_by duplicate? unreachable?",
    "machine_get": "name version definition created_at created_by",
}
SESSION = (
    "session_id app_name user_id project_id? status state metadata revision event_count created_at updated_at "
    "terminated_at? archived_at? machine? forked_from?"
)
WRITES = {
    "create": "session_id",
    "append": "session_id",
    "append_batch": None,
    "state_set": "session_id",
    "update": "session_id",
    "set_status": "session_id",
    "terminate": "session_id",
    "archive": "session_id",
    "delete": "session_id",
    "fork": "session_id",
    "app_put": "app_name",
    "machine_put": "name",
}


def all_operations() -> Iterator[AnyOperation]:
    for service in SERVICES:
        yield from service


def fields_of(model: type[BaseModel]) -> str:
    return " ".join(name if field.is_required() else f"{name}?" for name, field in model.model_fields.items())


OPERATIONS = list(all_operations())
every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=[each.full_name for each in OPERATIONS])


def test_names_are_unique() -> None:
    assert len({service.name for service in SERVICES}) == len(SERVICES)
    assert len({operation.full_name for operation in OPERATIONS}) == len(OPERATIONS)


@every_operation
def test_names_are_plain_subject_tokens(operation: AnyOperation) -> None:
    for token in (operation.service, operation.name):
        assert token.replace("_", "").isalnum()
        assert token.isascii()
        assert token == token.lower()


@every_operation
def test_a_route_is_a_text_field_of_a_write(operation: AnyOperation) -> None:
    if operation.route is None:
        return
    assert operation.writes
    example = operation.request.model_fields[operation.route]
    assert "str" in str(example.annotation)


@every_operation
def test_unknown_fields_are_refused_in_requests_and_ignored_in_replies(operation: AnyOperation) -> None:
    assert operation.request.model_config["extra"] == "forbid"
    assert operation.reply.model_config["extra"] == "ignore"


@every_operation
def test_it_says_what_it_does_and_how_it_fails(operation: AnyOperation) -> None:
    assert operation.summary.endswith(".")
    assert set(operation.errors) <= set(errors.ALL_ERRORS)
    assert len(set(operation.errors)) == len(operation.errors)


@every_operation
def test_a_list_is_paged_and_bounded(operation: AnyOperation) -> None:
    if not {"items", "cursor"} <= set(operation.reply.model_fields):
        return
    assert "items cursor" in fields_of(operation.reply)
    assert 1 <= operation.request.model_fields["limit"].default <= LIST_MAXIMUM
    assert "limit? cursor?" in fields_of(operation.request)


def test_the_sessions_service_has_the_operations_of_its_contract() -> None:
    assert {operation.name: fields_of(operation.request) for operation in SESSIONS} == SESSION_REQUESTS


def test_the_sessions_service_answers_what_its_contract_says() -> None:
    replies = {operation.name: fields_of(operation.reply) for operation in SESSIONS}
    assert replies == {name: SESSION_REPLIES.get(name, f"{SESSION} duplicate?") for name in SESSION_REQUESTS}
    assert fields_of(Session) == SESSION


def test_writes_and_their_routes_are_those_of_the_contract() -> None:
    assert {operation.name: operation.route for operation in SESSIONS if operation.writes} == WRITES


def test_an_event_has_the_fields_of_the_contract() -> None:
    assert fields_of(NewEvent) == "event_id? type author? content? metadata? parent_id? occurred_at?"


def test_one_of_a_batch_says_what_a_single_append_says_or_the_error() -> None:
    single = SESSION_REPLIES["append"].split()
    assert fields_of(AppendOutcome) == " ".join(f"{name}?" for name in [*single, "error"])


def test_every_request_of_the_service_belongs_to_an_operation() -> None:
    def declared(member: Any) -> bool:
        return inspect.isclass(member) and member.__module__ == requests.__name__

    models = {model for _, model in inspect.getmembers(requests, declared)}
    assert models == {operation.request for operation in SESSIONS}


def test_an_operation_is_found_by_its_name() -> None:
    assert SESSIONS["create"] is CREATE
    assert SESSIONS.get("create") is CREATE
    assert SESSIONS.get("conjure") is None
    with pytest.raises(KeyError):
        SESSIONS["conjure"]


def test_an_operation_is_declared_once_and_in_its_own_service() -> None:
    with pytest.raises(ValueError, match="twice"):
        ServiceContract("sessions", "Twice the same.", (CREATE, CREATE))
    with pytest.raises(ValueError, match="does not belong"):
        ServiceContract("memory", "Somebody else's.", (CREATE,))
    foreign = Operation("memory", "create", requests.CreateSession, Session, summary="Another service's.")
    assert repr(foreign) == "<Operation memory.create>"
