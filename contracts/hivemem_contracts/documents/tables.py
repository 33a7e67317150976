"""The generated parts of the wire page as Markdown, each by the name of its markers."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel

from hivemem_contracts import limits
from hivemem_contracts.catalog import CHANGES, SERVICES
from hivemem_contracts.changes import Change, ChangeKind
from hivemem_contracts.documents.schemas import summary_of
from hivemem_contracts.documents.shapes import fields, words
from hivemem_contracts.errors import ALL_ERRORS
from hivemem_contracts.json_limits import INTEGER_MAXIMUM, INTEGER_MINIMUM
from hivemem_contracts.operations import AnyOperation
from hivemem_contracts.subjects import KEY_MARKER

_LIMITS: Final = (
    ("an id", limits.ID_CHARACTERS, "characters"),
    ("a subject", limits.SUBJECT_BYTES, "bytes"),
    ("an inbox prefix, made of the tenant and the agent", limits.INBOX_PREFIX_BYTES, "bytes"),
    ("the body of a request or a durable command", limits.MESSAGE_BYTES, "bytes"),
    ("one state value, one event's content, one metadata object, as JSON", limits.VALUE_BYTES, "bytes"),
    ("a large value: content or a value of a session's own state, as a file", limits.LARGE_VALUE_BYTES, "bytes"),
    (
        "all keys of one state scope together, as JSON",
        limits.STATE_BYTES,
        "bytes, of which a large value is its reference",
    ),
    ("the state indexes of one app", limits.STATE_INDEXES, "keys"),
    ("the definition of one state machine, as JSON", limits.MACHINE_BYTES, "bytes"),
    ("all guards of one event together", limits.EXPRESSION_STEPS, "steps"),
    ("texts and lists that these guards build", limits.EXPRESSION_BYTES, "bytes"),
    ("the value of one memory, as JSON", limits.MEMORY_VALUE_BYTES, "bytes"),
    ("a file", limits.ARTIFACT_BYTES, "bytes, or the worker's setting"),
    ("a file in one request, or in one answer", limits.ARTIFACT_INLINE_BYTES, "bytes; larger ones use chunks"),
    ("one chunk of a file", limits.ARTIFACT_CHUNK_BYTES, "bytes, or less if the server's payload limit is lower"),
    ("the name of a file", limits.ARTIFACT_NAME_BYTES, f"bytes, {limits.ARTIFACT_SEGMENT_BYTES} a segment"),
    ("the metadata of a file, as JSON", limits.ARTIFACT_METADATA_BYTES, "bytes"),
    ("the files of one version of a workspace", limits.WORKSPACE_FILES, "files"),
    ("the list of these files, as an uploaded blob", limits.WORKSPACE_LIST_BYTES, "bytes"),
    ("a vector", limits.EMBEDDING_DIMENSIONS, "numbers"),
    ("the metadata of a vector, as JSON", limits.VECTOR_METADATA_BYTES, "bytes"),
    ("the question of a recall", limits.QUERY_CHARACTERS, "characters"),
    ("the results of a recall or a query", limits.RECALL_MAXIMUM, "items"),
    ("metadata fields in the filter of a recall or a query", limits.RECALL_FILTERS, "fields"),
    (
        "the wait of a recall for the index",
        limits.RECALL_WAIT_MAXIMUM_MS,
        f"ms, {limits.RECALL_WAIT_DEFAULT_MS:,} by default with a `min_version`",
    ),
    ("a value in a change, as JSON; a larger one is left out", limits.CHANGE_VALUE_BYTES, "bytes"),
    ("all items of one page together, as JSON", limits.REPLY_BYTES, "bytes"),
    ("the items of one page", limits.LIST_MAXIMUM, f"items, {limits.LIST_DEFAULT} by default"),
    ("one batch", limits.BATCH_ITEMS, "items"),
    ("the duration of a lease", limits.LEASE_MAXIMUM_MS, f"ms, and at least {limits.LEASE_MINIMUM_MS}"),
    ("the wait for a lease", limits.LEASE_WAIT_MAXIMUM_MS, "ms"),
    ("the queue of one lease", limits.LEASE_WAITERS, "requests"),
    ("the definition of a workflow, as JSON", limits.WORKFLOW_BYTES, "bytes"),
    ("the steps of a workflow, and of one branch", limits.WORKFLOW_STEPS, "steps"),
    ("the steps that one run takes", limits.RUN_STEPS, "steps"),
    ("the signals of a run that no step has waited for", limits.RUN_SIGNALS, "signals"),
    ("the steps of one claim", limits.STEPS_CLAIMED, "steps"),
    ("the wait for a step", limits.STEP_WAIT_MAXIMUM_MS, "ms"),
    ("nesting of objects and arrays, including the body", limits.JSON_DEPTH, "levels"),
)


def generated_parts() -> dict[str, str]:
    return {
        "operations": "\n".join(_operations()),
        "shapes": "\n".join(_shapes()),
        "types": "\n".join(_types()),
        "changes": "\n".join(_changes()),
        "errors": "\n".join(_errors()),
        "limits": "\n".join(_limits()),
    }


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    head = list(head)
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _operations() -> Iterator[str]:
    for number, service in enumerate(SERVICES):
        if number:
            yield ""
        yield f"### {service.name}"
        yield ""
        yield service.summary
        yield ""
        yield from _table(("operation", "request", "reply", "route", "errors of its own"), map(_row, service))
        yield ""
        yield from (f"- `{operation.full_name}`: {operation.summary}" for operation in service)


def _row(operation: AnyOperation) -> tuple[str, ...]:
    reply: type[BaseModel] = operation.reply
    answer = reply.__name__ if reply in _shared_models() else fields(reply)
    route = "" if not operation.durable else f"`{operation.route}`" if operation.route else "the publisher's choice"
    errors = ", ".join(f"`{error.__name__}`" for error in operation.errors)
    return f"`{operation.name}`", f"`{fields(operation.request)}`", f"`{answer}`", route, errors


def _types() -> Iterator[str]:
    return _table(("type", "meaning"), ((f"`{word}`", meaning) for word, meaning in words()))


def _shapes() -> Iterator[str]:
    return _table(
        ("name", "fields", "meaning"),
        ((f"`{model.__name__}`", f"`{fields(model)}`", summary_of(model)) for model in _shared_models()),
    )


def _changes() -> Iterator[str]:
    return _table(
        ("entity", "address", "operation", "value", "when"),
        (
            (f"`{kind.entity}`", f"`{_address(kind)}`", f"`{kind.operation}`", f"`{_value(kind)}`", kind.summary)
            for kind in CHANGES
        ),
    )


def _address(kind: ChangeKind) -> str:
    tokens = [f"<{name}>" for name in kind.address]
    if not kind.keyed:
        return ".".join(tokens)
    before, key = ".".join(tokens[:-1]), f".{KEY_MARKER}.{tokens[-1]}"
    return f"{before}[{key}]" if kind.key_optional else before + key


def _value(kind: ChangeKind) -> str:
    if kind.value is None:
        return "null"
    return kind.value.__name__ if kind.value in _shared_models() else fields(kind.value)


def _errors() -> Iterator[str]:
    return _table(
        ("code", "name", "retryable", "when"),
        (
            (str(error.code), f"`{error.__name__}`", "yes" if error.retryable else "no", summary_of(error))
            for error in sorted(ALL_ERRORS, key=lambda error: error.code)
        ),
    )


def _limits() -> Iterator[str]:
    yield from _table(("what", "at most"), ((what, f"{limit:,} {unit}") for what, limit, unit in _LIMITS))
    yield ""
    yield f"An integer is between {INTEGER_MINIMUM} and {INTEGER_MAXIMUM}, and every number is finite."


def _shared_models() -> tuple[type[BaseModel], ...]:
    """Return the models with a row of their own: parts of bodies, shared replies and values, and `Change`."""
    operations = [operation for service in SERVICES for operation in service]
    told: Counter[type[BaseModel]] = Counter(operation.reply for operation in operations)
    told.update({kind.value for kind in CHANGES if kind.value is not None})
    outer = [*(operation.request for operation in operations), *told]
    inner = {part for model in outer for part in _parts(model)} | {model for model in told if told[model] > 1}
    return (*sorted(inner, key=lambda model: model.__name__), Change)


def _parts(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for field in model.model_fields.values():
        for part in _models_in(field.annotation):
            yield part
            yield from _parts(part)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is Annotated:
        yield from _models_in(get_args(annotation)[0])
    else:
        for argument in get_args(annotation):
            yield from _models_in(argument)
