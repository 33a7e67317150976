"""The requested wait of a request, and the time limits of its calls that follow from it."""

import dataclasses

from pydantic import BaseModel

from hivemem.options import CallOptions
from hivemem_contracts.limits import RECALL_WAIT_DEFAULT_MS
from hivemem_contracts.operations import AnyOperation


def patient_options(options: CallOptions, operation: AnyOperation, body: BaseModel) -> CallOptions:
    """Return options with the requested wait added to the time limits.

    A write is known by its message id and continues its wait when it is sent again. A query would start its wait again,
    so each of its attempts may take as long.
    """
    wait_ms = _asked_wait_ms(body)
    if not wait_ms:
        return options
    wait_seconds = wait_ms / 1_000
    return dataclasses.replace(
        options,
        timeout_seconds=options.timeout_seconds + wait_seconds,
        attempt_seconds=options.attempt_seconds + (0.0 if operation.writes else wait_seconds),
    )


def _asked_wait_ms(body: BaseModel) -> int:
    asked = getattr(body, "wait_ms", None)
    if asked is None and getattr(body, "min_version", None) is not None:
        return RECALL_WAIT_DEFAULT_MS
    return int(asked or 0)
