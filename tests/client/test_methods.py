"""The client has a documented method for every operation of the registry."""

import ast
import inspect
import keyword
import pydoc
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, get_type_hints

import pydantic
import pytest

import hivemem
from hivemem.sync.artifacts import BlockingOpenArtifact
from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.errors import ALL_ERRORS
from hivemem_contracts.operations import AnyOperation

OPERATIONS = [operation for service in SERVICES for operation in service]


HIVE = hivemem.Hive()
BLOCKING = hivemem.sync.Hive()


def method_of(hive: object, operation: AnyOperation) -> Any:
    """Return the method of an operation; a name that Python reserves has an underscore appended."""
    name = operation.name + "_" * keyword.iskeyword(operation.name)
    return getattr(getattr(hive, operation.service), name)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.full_name)
def test_every_operation_is_a_documented_method_with_its_fields_as_parameters(operation: AnyOperation) -> None:
    fields = operation.request.model_fields

    for hive in (HIVE, BLOCKING):
        method = method_of(hive, operation)
        parameters = inspect.signature(method).parameters

        assert list(parameters) == list(fields)
        assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters.values())
        required = {name for name, parameter in parameters.items() if parameter.default is parameter.empty}
        assert required == {name for name, field in fields.items() if field.is_required()}
        assert set(get_type_hints(method)) == {*fields, "return"}
        assert get_type_hints(method)["return"] is operation.reply
        assert method.__doc__.startswith(operation.summary)
        assert all(f"{error.__name__}: " in method.__doc__ for error in operation.errors)
        assert inspect.iscoroutinefunction(method) is (hive is HIVE)


def test_help_shows_the_fields_their_defaults_and_their_descriptions() -> None:
    shown = pydoc.plain(pydoc.render_doc(HIVE.memory.get))

    assert "namespace: str, key: str, version: int | None = None" in shown
    assert "include_deleted: bool = False" in shown
    assert "as_of: As it was at this moment." in shown


def test_builders_of_schemas_read_the_methods() -> None:
    put: Any = HIVE.memory.put
    schema = pydantic.TypeAdapter(put).json_schema()

    assert schema["required"] == ["namespace", "key", "value"]
    assert schema["properties"]["memory_type"]["anyOf"][0]["enum"] == ["semantic", "episodic", "procedural"]


async def test_positional_arguments_and_unknown_fields_are_type_errors() -> None:
    gc: Any = HIVE.artifacts.gc
    get: Any = HIVE.memory.get
    with pytest.raises(TypeError, match="2 positional"):
        await gc(True, 0)
    with pytest.raises(TypeError, match=r"'namespce' \(did you mean 'namespace'\?\)"):
        await get(namespce="user:alice", key="k")
    with pytest.raises(TypeError, match="'key'"):
        await get(namespace="user:alice")
    with pytest.raises(TypeError, match="'namespace'"):
        await HIVE.publish(cast("Any", HIVE.memory.put), namespce="user:alice", key="k")
    with pytest.raises(hivemem.InvalidRequest, match="only reads"):
        await HIVE.publish(HIVE.memory.count, prefix="user")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"hive\.memory\.put"):
        await HIVE.publish(cast("Any", print), "hello")


def wrong_calls(hive: Any) -> list[tuple[Callable[[], object], str]]:
    return [
        (lambda: hive.with_options(timeout=3), "timeout_seconds"),
        (lambda: type(hive)(agnt="planner"), "agent"),
        (lambda: hive.recall("hotel", prefix="user:alice"), "namespace_prefix"),
        (lambda: hive.lease("user:alice", wait=3), "wait_seconds"),
        (lambda: hive.changes(sinc="start"), "since"),
        (lambda: hive.artifacts.upload("s1", "a.txt", b"", contnt_type="text/plain"), "content_type"),
        (lambda: hive.request("memory.putt", {}), "memory.put"),
    ]


@pytest.mark.parametrize("which", range(len(wrong_calls(None))))
async def test_a_misspelt_name_is_refused_with_the_nearest_one(which: int) -> None:
    for hive in (HIVE, BLOCKING):
        call, meant = wrong_calls(hive)[which]
        with pytest.raises((TypeError, hivemem.InvalidRequest), match=f"did you mean '{meant}'"):
            await cast("Any", call())


def test_a_client_that_was_not_awaited_says_so() -> None:
    connecting: Any = hivemem.connect()
    with pytest.raises(AttributeError, match="await the client first"):
        connecting.memory.put()


def test_errors_of_the_synchronous_client_name_its_classes_as_users_know_them() -> None:
    blocking: Any = BLOCKING
    with pytest.raises(AttributeError, match=r"'sync\.Hive' object"):
        blocking.memry.put()
    with pytest.raises(AttributeError, match=r"'sync\.MemoryOperations' object"):
        blocking.memory.putt()
    with pytest.raises(TypeError, match=r"^sync\.Hive\.lease\(\) missing"):
        blocking.lease()


async def test_a_lease_in_place_of_its_claim_says_what_to_pass() -> None:
    put: Any = HIVE.memory.put
    with pytest.raises(TypeError, match=r"lease=lease\.claim"):
        await put(namespace="user:alice", key="k", value=1, lease=HIVE.lease("user:alice"))
    with pytest.raises(TypeError, match=r"lease=lease\.claim"):
        BLOCKING.memory.put(namespace="user:alice", key="k", value=1, lease=cast("Any", BLOCKING.lease("user:alice")))
    with pytest.raises(RuntimeError, match="not held"):
        getattr(BLOCKING.lease("user:alice"), "claim")  # noqa: B009 - an attribute that raises


@pytest.mark.parametrize(
    ("kind", "twin"),
    [
        (hivemem.Hive, hivemem.sync.Hive),
        (hivemem.Feed, hivemem.sync.Feed),
        (hivemem.Lease, hivemem.sync.Lease),
        (hivemem.Pipeline, hivemem.sync.Pipeline),
        (hivemem.DeadLetters, type(BLOCKING.dead)),
        (hivemem.OpenArtifact, BlockingOpenArtifact),
        (type(HIVE.artifacts), type(BLOCKING.artifacts)),
        (type(HIVE.vectors), type(BLOCKING.vectors)),
    ],
)
def test_the_synchronous_client_has_the_same_methods(kind: type, twin: type) -> None:
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        # Steps of workflows are coroutines.
        if not name.startswith("_") and name not in ("send", "workflow"):
            same = getattr(twin, name)
            assert list(inspect.signature(same).parameters) == list(inspect.signature(method).parameters), name
            assert "Async" not in str(inspect.signature(same).return_annotation), name
            assert same.__doc__, name


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
