"""The raw subjects that carry the bytes of artifacts, as AsyncAPI: no operation declares them."""

from typing import Final

from hivemem_contracts.artifacts.chunks import (
    CHUNK_HEADER,
    CRC32_HEADER,
    DURABLE_CHUNKS_HEADER,
    NEXT_CHUNK_HEADER,
)
from hivemem_contracts.documents.portable import Schema

ADDRESSES: Final = {
    "artifacts.chunk": "hive.req.{tenant}.{agent}.artifacts.chunk.{member}.{upload_id}",
    "artifacts.read": "hive.req.{tenant}.{agent}.artifacts.read.{session_id}.{name}.{version}",
    "artifacts.workspace": "hive.req.{tenant}.{agent}.artifacts.workspace.{workspace_id}",
}
PARAMETERS: Final = {
    "member": "The worker that owns the upload, as `begin` and `resume` return it.",
    "upload_id": "The upload, as one token.",
    "version": "The version of a file.",
}
SUMMARIES: Final = {
    "artifacts.chunk": "Send one chunk of an upload; answered once it is accepted.",
    "artifacts.read": "Read one chunk of a file.",
    "artifacts.workspace": "Read bytes of files of a workspace.",
}
_NUMBER: Final[Schema] = {"type": "string", "pattern": "^[0-9]+$"}
_CRC32: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{8}$", "description": "CRC-32 of the chunk."}
_CHUNK: Final[Schema] = {**_NUMBER, "description": "The number of the chunk, counted from 0."}
_BYTES: Final[Schema] = {"description": "The raw bytes of the chunk."}
_RANGES: Final[Schema] = {"description": "A JSON array of ranges, each `[sha256, offset, length]`."}
_NOTHING: Final[Schema] = {"description": "Nothing."}


def raw_messages() -> Schema:
    """Return the raw messages by name; their payload is bytes, or empty."""
    taken: Schema = {
        NEXT_CHUNK_HEADER: {**_NUMBER, "description": "The first missing chunk."},
        DURABLE_CHUNKS_HEADER: {**_NUMBER, "description": "The number of chunks that outlive the worker."},
    }
    asked: Schema = {CHUNK_HEADER: _CHUNK}
    sent: Schema = {CHUNK_HEADER: _CHUNK, CRC32_HEADER: _CRC32}
    return {
        "artifacts.chunk.request": _message(sent, [CHUNK_HEADER], _BYTES),
        "artifacts.chunk.reply": _message(taken, list(taken), _NOTHING),
        "artifacts.read.request": _message(asked, [CHUNK_HEADER], _NOTHING),
        "artifacts.read.reply": _message(sent, list(sent), _BYTES),
        "artifacts.workspace.request": _message({}, [], _RANGES),
        "artifacts.workspace.reply": _message({CRC32_HEADER: _CRC32}, [CRC32_HEADER], _BYTES),
    }


def _message(headers: Schema, required: list[str], payload: Schema) -> Schema:
    return {
        "headers": {"type": "object", "properties": headers, "required": sorted(required)},
        "payload": payload,
        "contentType": "application/octet-stream",
    }


def raw_operations() -> Schema:
    return {name: _operation(name) for name in ADDRESSES}


def _operation(name: str) -> Schema:
    reply = f"#/channels/{name}.reply"
    return {
        "action": "receive",
        "channel": {"$ref": f"#/channels/{name}"},
        "summary": SUMMARIES[name],
        "reply": {
            "channel": {"$ref": reply},
            "messages": [{"$ref": f"{reply}/messages/reply"}, {"$ref": f"{reply}/messages/error"}],
        },
    }
