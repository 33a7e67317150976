"""The raw subjects for bytes, beside the operations: their names and headers.

A client sends a chunk of an upload as a request to its `chunk_subject`. The body is the bytes, and the headers name the
chunk and optionally its CRC-32. The answer is empty, and comes once the chunk and all chunks before it are appended.
Every chunk but the last one has exactly `chunk_bytes`. A client reads a chunk of an artifact with an empty request to
the `chunk_subject` of its content; the answer is the bytes. Errors are answered like those of an operation. A third
subject carries commits between workers.

The bytes of files of a workspace are read with a request to the `workspace_subject`. Its body is a JSON array of
`[sha256, offset, length]`; the answer is the bytes of all these ranges one after another, with their CRC-32.
"""

from typing import Final, NamedTuple

from hivemem_contracts.subjects import Sender, checked, decode_token, encode_token, sender_of

CHUNK_HEADER: Final = "Hive-Chunk"
"""The number of the chunk, counted from 0."""

CRC32_HEADER: Final = "Hive-Chunk-Crc32"
"""The CRC-32 of the chunk's bytes, eight hexadecimal digits, in requests and answers."""

NEXT_CHUNK_HEADER: Final = "Hive-Next-Chunk"
"""The next missing chunk, in the answer to a chunk: after the last one, the number of all chunks."""

DURABLE_CHUNKS_HEADER: Final = "Hive-Durable-Chunks"
"""The number of chunks that survive a crash of the worker, in the answer to a chunk. A sender that cannot read its
bytes again keeps the others."""

HEADER_BYTES: Final = 1_024
"""The space for headers beside a chunk in the server's maximum payload."""


def upload_subject(tenant: str, agent: str, member: str, upload_id: str) -> str:
    """Return the subject for chunks of an upload, at the worker that holds it."""
    sender = f"{encode_token(tenant)}.{encode_token(agent)}"
    return checked(f"hive.req.{sender}.artifacts.chunk.{encode_token(member)}.{encode_token(upload_id)}")


def uploads_pattern(member: str) -> str:
    return f"hive.req.*.*.artifacts.chunk.{encode_token(member)}.*"


def commit_subject(tenant: str, agent: str, member: str, upload_id: str) -> str:
    """Return the subject on which a worker forwards a commit to the worker that holds the upload. Clients do not use
    it."""
    sender = f"{encode_token(tenant)}.{encode_token(agent)}"
    return checked(f"hive.req.{sender}.artifacts.commit.{encode_token(member)}.{encode_token(upload_id)}")


def commits_pattern(member: str) -> str:
    return f"hive.req.*.*.artifacts.commit.{encode_token(member)}.*"


def content_subject(tenant: str, agent: str, session_id: str, name: str, version: int) -> str:
    """Return the subject for reading chunks of a version, at any worker."""
    place = f"{encode_token(session_id)}.{encode_token(name)}.{version}"
    return checked(f"hive.req.{encode_token(tenant)}.{encode_token(agent)}.artifacts.read.{place}")


CONTENTS_PATTERN: Final = "hive.req.*.*.artifacts.read.*.*.*"


def workspace_subject(tenant: str, agent: str, workspace_id: str) -> str:
    """Return the subject for reading the bytes of files of a workspace, at any worker."""
    sender = f"{encode_token(tenant)}.{encode_token(agent)}"
    return checked(f"hive.req.{sender}.artifacts.workspace.{encode_token(workspace_id)}")


WORKSPACES_PATTERN: Final = "hive.req.*.*.artifacts.workspace.*"


def parse_workspace_subject(subject: str) -> tuple[Sender, str]:
    """Return the sender of a request for bytes of a workspace, and the id of the workspace."""
    tokens = subject.split(".")
    return sender_of(tokens[2], tokens[3]), decode_token(tokens[6])


class ContentPlace(NamedTuple):
    """A version of an artifact whose bytes are read."""

    session_id: str
    name: str
    version: int


def parse_upload_subject(subject: str) -> tuple[Sender, str]:
    """Return the sender and the upload id of a chunk's or a commit's subject, whose number of tokens was checked by the
    subscription."""
    tokens = subject.split(".")
    return sender_of(tokens[2], tokens[3]), decode_token(tokens[7])


def parse_content_subject(subject: str) -> tuple[Sender, ContentPlace]:
    """Return the sender of a request for a chunk, and the version that it reads."""
    tokens = subject.split(".")
    version = tokens[8]
    number = int(version) if version.isascii() and version.isdigit() and len(version) < 17 else 0
    return sender_of(tokens[2], tokens[3]), ContentPlace(decode_token(tokens[6]), decode_token(tokens[7]), number)
