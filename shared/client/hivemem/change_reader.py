"""Reads the body of a change into the class of its kind."""

from collections.abc import Callable
from functools import lru_cache

import pydantic
from pydantic import TypeAdapter

from hivemem.changes import Change, KnownChange
from hivemem.received import OtherChange
from hivemem_contracts import changes as contracts


def read_change(data: bytes) -> Change:
    """Return a change without its place. Raises pydantic's `ValidationError` for anything else.

    A change with an unknown entity or operation, or with an unexpected value, becomes an `OtherChange`.
    """
    try:
        return _known()(data)
    except pydantic.ValidationError:
        sent = contracts.Change.model_validate_json(data)
    fields = {**sent.__dict__, "entity": "other", "operation": "other", "kind": f"{sent.entity}.{sent.operation}"}
    return OtherChange.model_construct(sent.model_fields_set, **fields)


@lru_cache(maxsize=1)
def _known() -> Callable[[bytes], KnownChange]:
    """Return the validator of the known changes. It takes some milliseconds to build, which only readers need."""
    return TypeAdapter(KnownChange).validator.validate_json
