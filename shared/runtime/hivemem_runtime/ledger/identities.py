"""One idempotency key means one command: what is said where the same key comes with another one."""

from hivemem_contracts.errors import IdempotencyConflict
from hivemem_contracts.streams import MESSAGE_ID


def require_same_command(known: bytes | None, given: bytes | None) -> None:
    """Compare the digests of two commands under one key. Without a digest, a command matches any other."""
    if known != given and known is not None and given is not None:
        raise idempotency_conflict()


def idempotency_conflict() -> IdempotencyConflict:
    return IdempotencyConflict(f"{MESSAGE_ID}: a request with another body had the same id", field=MESSAGE_ID)
