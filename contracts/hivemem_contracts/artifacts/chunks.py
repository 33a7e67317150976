"""The raw subjects on which bytes travel, beside the operations: what they are called, and what stands in them.

A chunk up is a request to the `chunk_subject` of an upload: its body is the bytes as they are, its headers say which
chunk it is, and, if the sender likes, what its CRC-32 is. It is answered by an empty message once it is durable. Every
chunk but the last one has exactly `chunk_bytes`. A chunk down is an empty request to the `chunk_subject` of an
artifact's content, with the same header; the answer is the bytes. What is refused is answered like any operation.
"""

from typing import Final, NamedTuple

from hivemem_contracts.subjects import Sender, checked, decode_token, encode_token, sender_of

CHUNK_HEADER: Final = "Hive-Chunk"
"""Which chunk, counted from 0."""

CRC32_HEADER: Final = "Hive-Chunk-Crc32"
"""Of the chunk's bytes, eight hexadecimal digits; stands in answers too."""

NEXT_CHUNK_HEADER: Final = "Hive-Next-Chunk"
"""In an answer to a chunk: the first one that is not there yet."""

DURABLE_CHUNKS_HEADER: Final = "Hive-Durable-Chunks"
"""In an answer to a chunk: how many outlive the worker. A sender that cannot read its bytes again keeps the others."""

HEADER_BYTES: Final = 1_024
"""What is left for headers where a chunk's size follows from what the server passes."""


def upload_subject(tenant: str, agent: str, member: str, upload_id: str) -> str:
    """To the one worker that began the upload, or took it over."""
    sender = f"{encode_token(tenant)}.{encode_token(agent)}"
    return checked(f"hive.req.{sender}.artifacts.chunk.{encode_token(member)}.{encode_token(upload_id)}")


def uploads_pattern(member: str) -> str:
    return f"hive.req.*.*.artifacts.chunk.{encode_token(member)}.*"


def content_subject(tenant: str, agent: str, session_id: str, name: str, version: int) -> str:
    """To any worker."""
    place = f"{encode_token(session_id)}.{encode_token(name)}.{version}"
    return checked(f"hive.req.{encode_token(tenant)}.{encode_token(agent)}.artifacts.read.{place}")


CONTENTS_PATTERN: Final = "hive.req.*.*.artifacts.read.*.*.*"


class ContentPlace(NamedTuple):
    """Which bytes are asked for."""

    session_id: str
    name: str
    version: int


def parse_upload_subject(subject: str) -> tuple[Sender, str]:
    """Who sends a chunk, and to which upload. The subscription has seen to the number of tokens."""
    tokens = subject.split(".")
    return sender_of(tokens[2], tokens[3]), decode_token(tokens[7])


def parse_content_subject(subject: str) -> tuple[Sender, ContentPlace]:
    """Who asks for a chunk, and of what."""
    tokens = subject.split(".")
    version = tokens[8]
    number = int(version) if version.isascii() and version.isdigit() and len(version) < 17 else 0
    return sender_of(tokens[2], tokens[3]), ContentPlace(decode_token(tokens[6]), decode_token(tokens[7]), number)
