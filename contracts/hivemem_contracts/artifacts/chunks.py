"""The raw subjects that carry the bytes of files, beside the operations: their names and their headers.

A chunk up is a request to the `chunk_subject` of an upload: its body is the raw bytes, and its headers hold the number
of the chunk and, optionally, its CRC-32. Its answer, an empty message, comes once the chunk is durable. Every chunk but
the last one has exactly `chunk_bytes`. A chunk down is an empty request to the `chunk_subject` of an artifact's
content, with the same header; the answer is the bytes. Errors are answered as by any operation.
"""

from typing import Final, NamedTuple

from hivemem_contracts.subjects import Sender, checked, decode_token, encode_token, sender_of

CHUNK_HEADER: Final = "Hive-Chunk"
"""The number of the chunk, counted from 0."""

CRC32_HEADER: Final = "Hive-Chunk-Crc32"
"""The CRC-32 of the chunk's bytes, as eight hexadecimal digits. Answers carry it too."""

NEXT_CHUNK_HEADER: Final = "Hive-Next-Chunk"
"""The number of the first missing chunk, in an answer to a chunk."""

DURABLE_CHUNKS_HEADER: Final = "Hive-Durable-Chunks"
"""The number of chunks that outlive the worker, in an answer. A sender that cannot read twice keeps the others."""

HEADER_BYTES: Final = 1_024
"""The room for headers when a chunk's size is derived from the server's payload limit."""


def upload_subject(tenant: str, agent: str, member: str, upload_id: str) -> str:
    """Return the subject of an upload's chunks, which leads to the one worker that owns the upload."""
    sender = f"{encode_token(tenant)}.{encode_token(agent)}"
    return checked(f"hive.req.{sender}.artifacts.chunk.{encode_token(member)}.{encode_token(upload_id)}")


def uploads_pattern(member: str) -> str:
    return f"hive.req.*.*.artifacts.chunk.{encode_token(member)}.*"


def content_subject(tenant: str, agent: str, session_id: str, name: str, version: int) -> str:
    """Return the subject to read a file's chunks from, which leads to any worker."""
    place = f"{encode_token(session_id)}.{encode_token(name)}.{version}"
    return checked(f"hive.req.{encode_token(tenant)}.{encode_token(agent)}.artifacts.read.{place}")


CONTENTS_PATTERN: Final = "hive.req.*.*.artifacts.read.*.*.*"


class ContentPlace(NamedTuple):
    """The file and version whose bytes are requested."""

    session_id: str
    name: str
    version: int


def parse_upload_subject(subject: str) -> tuple[Sender, str]:
    """Return the sender of a chunk and its upload. The subscription guarantees the number of tokens."""
    tokens = subject.split(".")
    return sender_of(tokens[2], tokens[3]), decode_token(tokens[7])


def parse_content_subject(subject: str) -> tuple[Sender, ContentPlace]:
    """Return the caller that asks for a chunk, and the file that it asks for."""
    tokens = subject.split(".")
    version = tokens[8]
    number = int(version) if version.isascii() and version.isdigit() and len(version) < 17 else 0
    return sender_of(tokens[2], tokens[3]), ContentPlace(decode_token(tokens[6]), decode_token(tokens[7]), number)
