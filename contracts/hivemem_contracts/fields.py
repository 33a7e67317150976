"""Fields shared by the bodies of several services."""

from typing import Annotated

from pydantic import Field

from hivemem_contracts.json_values import FromPython, Json
from hivemem_contracts.limits import CURSOR_CHARACTERS, LIST_MAXIMUM, VALUE_BYTES
from hivemem_contracts.sizes import MaxBytes

Limit = Annotated[int, Field(ge=1, le=LIST_MAXIMUM)]
Cursor = Annotated[
    str, Field(min_length=1, max_length=CURSOR_CHARACTERS, description="The cursor of the previous page.")
]
Value = Annotated[Json, FromPython(), MaxBytes(VALUE_BYTES)]
"""Any JSON, of a limited size."""

Metadata = Annotated[dict[str, Json], FromPython(), MaxBytes(VALUE_BYTES)]
Version = Annotated[int, Field(ge=1, le=2**53)]
ExpectedVersion = Annotated[
    int,
    Field(
        ge=0,
        le=2**53,
        description="Refuse with RevisionConflict unless this is the current version; 0: must not exist.",
    ),
]
