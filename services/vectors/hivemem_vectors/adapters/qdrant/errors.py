"""What the errors of Qdrant's client mean to the port, in one place."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import grpc
from grpc.aio import AioRpcError
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

from hivemem_contracts.errors import AlreadyExists, HiveError, Internal, InvalidRequest, NotFound, Unavailable

RETRY_AFTER_MS: Final = 1_000

_NOT_NOW: Final = (
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAVAILABLE,
)
_SET_UP: Final = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
_FULL: Final = "No space left on device"


def unavailable(detail: str) -> Unavailable:
    return Unavailable(detail, retry_after_ms=RETRY_AFTER_MS)


@contextmanager
def translated(collection: str = "") -> Generator[None]:
    """Turn what the client raises inside into the port's errors. Addresses of the server stay out of the text."""
    try:
        yield
    except AioRpcError as error:
        raise _meaning(error, collection) from error
    except ResourceExhaustedResponse as error:
        raise Unavailable(
            "the vector store takes no more at once", retry_after_ms=error.retry_after_s * 1_000
        ) from error
    except AttributeError as error:
        # Seen once in tens of thousands of calls: gRPC gave the client no answer and no error either.
        if not str(error).startswith("'NoneType'"):
            raise
        raise unavailable("an answer of the vector store was lost") from error


def _meaning(error: AioRpcError, collection: str) -> HiveError:
    code, detail = error.code(), error.details() or ""
    if code is grpc.StatusCode.NOT_FOUND:
        return NotFound(f"there is no collection {collection}", collection=collection)
    if code is grpc.StatusCode.ALREADY_EXISTS:
        return AlreadyExists(f"there is a collection {collection}", collection=collection)
    if code in _NOT_NOW or _FULL in detail:
        return unavailable(f"the vector store cannot be reached or cannot do this now: {code.name}")
    if code in _SET_UP:
        return unavailable(f"the vector store cannot be used as it is set up: {code.name}")
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return InvalidRequest(f"the vector store refused: {detail}", field="collection", collection=collection)
    return Internal(f"the vector store failed with {code.name}: {detail}")
