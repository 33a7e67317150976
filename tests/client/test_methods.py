"""The client has a documented method for every operation of the registry."""

import ast
import keyword
from pathlib import Path

import pytest

import hivemem
from hivemem.methods import BoundCommand, BoundQuery
from hivemem.options import CallOptions
from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.errors import ALL_ERRORS
from hivemem_contracts.operations import AnyOperation

OPERATIONS = [operation for service in SERVICES for operation in service]


def method_of(operation: AnyOperation) -> object:
    """Return the method of an operation; a name that Python reserves has an underscore appended."""
    name = operation.name + "_" * keyword.iskeyword(operation.name)
    return getattr(getattr(unconnected(), operation.service), name)


def unconnected() -> hivemem.Hive:
    from hivemem.connection import Connection

    return hivemem.Hive(Connection("nats://127.0.0.1:1", "_INBOX", "test", {}), "acme", "bot", CallOptions())


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.full_name)
def test_every_operation_is_a_method_of_its_service(operation: AnyOperation) -> None:
    method = method_of(operation)

    assert isinstance(method, BoundQuery)
    assert method.operation is operation  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.full_name)
def test_what_writes_can_be_published_and_nothing_else(operation: AnyOperation) -> None:
    method = method_of(operation)

    assert isinstance(method, BoundCommand) == operation.writes


def test_a_method_says_what_it_does() -> None:
    assert "Append an event" in repr(unconnected().sessions.append)
    assert "Append an event" in (type(unconnected().sessions).append.__doc__ or "")


def test_every_public_name_is_there_and_declared_for_type_checkers() -> None:
    source = Path(hivemem.__file__).read_text(encoding="utf-8")
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.level == 0]
    declared = {name.asname for node in imports for name in node.names if name.asname}

    assert declared == set(dir(hivemem))
    assert all(getattr(hivemem, name) is not None for name in declared)
    assert {error.__name__ for error in ALL_ERRORS} <= declared


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_such"):
        getattr(hivemem, "nothing_" + "such")


def test_the_errors_of_the_feed_have_codes_of_their_own() -> None:
    mine: list[type[hivemem.HiveError]] = [hivemem.FeedTruncated, hivemem.FeedRecreated, hivemem.UnreadableChange]

    assert len({error.code for error in [*ALL_ERRORS, *mine]}) == len(ALL_ERRORS) + len(mine)
