"""How long a request asks to be kept waiting, and what that means for how long its answer is waited for."""

import dataclasses

from pydantic import BaseModel

from hivemem.options import CallOptions
from hivemem_contracts.limits import RECALL_WAIT_DEFAULT_MS
from hivemem_contracts.operations import AnyOperation


def patient_options(options: CallOptions, operation: AnyOperation, body: BaseModel) -> CallOptions:
    """Options that leave a worker the time that it was asked to wait, on top of what it needs itself.

    What writes is known by its message id and goes on waiting where it was, however often it is sent. A query would
    begin to wait anew, so each of its tries may take as long.
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
