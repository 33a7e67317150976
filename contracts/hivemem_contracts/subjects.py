"""The grammar of subjects for requests, durable commands, changes and dead letters.

Free text becomes one token: UTF-8 bytes outside `[A-Za-z0-9_-]` are percent-escaped and empty text is a lone `%`,
so no id can add a token, a wildcard or a space to a subject.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.limits import INBOX_PREFIX_BYTES, SUBJECT_BYTES
from hivemem_contracts.sizes import check_size

KEY_MARKER: Final = "%k"
_SAFE: Final = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES: Final = tuple(chr(byte) if _SAFE.fullmatch(chr(byte)) else f"%{byte:02X}" for byte in range(256))
_DEAD_TOKENS_BYTES: Final = SUBJECT_BYTES - 64
_TOKEN: Final = re.compile(r"%|(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+")


@lru_cache(maxsize=4096)
def encode_token(text: str) -> str:
    """Encode any text as one token."""
    if not text:
        return "%"
    check_size("subject", len(text), SUBJECT_BYTES)  # before the text can enter the cache
    if _SAFE.fullmatch(text):
        return text
    try:
        return "".join([_ESCAPES[byte] for byte in text.encode("utf-8")])
    except UnicodeEncodeError as error:
        raise InvalidRequest("subject: half of a surrogate pair cannot be encoded", field="subject") from error


def decode_token(token: str) -> str:
    """Decode the text of a token; raise `InvalidRequest` unless `encode_token` writes it the same way."""
    if token == "%":
        return ""
    if not _TOKEN.fullmatch(token):
        raise InvalidRequest(f"subject: {token!r} is not an escaped token", field="subject")
    if "%" not in token:
        return token
    try:
        text = unquote_to_bytes(token).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"subject: {token!r} is not UTF-8 when unescaped", field="subject") from error
    if encode_token(text) != token:
        raise InvalidRequest(f"subject: {token!r} escapes what needs no escaping", field="subject")
    return text


def checked(subject: str) -> str:
    """Return the subject, or raise `TooLarge`. A subject is ASCII, so characters are bytes."""
    check_size("subject", len(subject), SUBJECT_BYTES)
    return subject


def request_subject(tenant: str, agent: str, service: str, operation: str) -> str:
    return checked(f"hive.req.{encode_token(tenant)}.{encode_token(agent)}.{service}.{operation}")


def inbox_prefix(tenant: str, agent: str) -> str:
    """Return the prefix of an agent's inboxes, where no other agent may subscribe. `_` separates the two names, so a
    `_` inside a name is escaped as well."""
    tokens = (encode_token(text).replace("_", "%5F") for text in (tenant, agent))
    return f"_INBOX_{'_'.join(tokens)}"


def command_subject(tenant: str, agent: str, service: str, operation: str, route: str) -> str:
    """Return the subject of a durable command. `route` orders it: the session id, or the whole namespace as one
    token."""
    return checked(f"hive.in.{encode_token(tenant)}.{encode_token(agent)}.{service}.{operation}.{encode_token(route)}")


def dead_subject(tenant: str, agent: str, service: str, operation: str) -> str:
    return checked(f"hive.dead.{encode_token(tenant)}.{encode_token(agent)}.{service}.{operation}")


def dead_subject_of(tokens: Sequence[str]) -> str:
    """Return a dead letter's subject for tokens of any bytes: invalid tokens are escaped, and long ones are cut."""
    escaped = [token if _TOKEN.fullmatch(token) else encode_token(token[:SUBJECT_BYTES]) for token in tokens]
    if sum(map(len, escaped)) > _DEAD_TOKENS_BYTES:
        escaped = [token[: _DEAD_TOKENS_BYTES // len(escaped)] for token in escaped]
    return checked(".".join(["hive", "dead", *escaped]))


@dataclass(frozen=True, slots=True)
class Sender:
    """The acting tenant and agent, as named by the subject and by nothing else."""

    tenant: str
    agent: str


@lru_cache(maxsize=4096)
def sender_of(tenant_token: str, agent_token: str) -> Sender:
    """Return who acts. Raises `InvalidRequest` for tokens that are no names, `TooLarge` for names that are too long."""
    tenant, agent = decode_token(tenant_token), decode_token(agent_token)
    if not tenant or not agent:
        raise InvalidRequest("subject: the tenant and the agent may not be empty", field="subject")
    check_size("tenant and agent", len(inbox_prefix(tenant, agent)), INBOX_PREFIX_BYTES)
    return Sender(tenant, agent)


def namespace_tokens(namespace: str) -> tuple[str, ...]:
    return tuple(encode_token(part) for part in namespace.split(":"))


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a change below its tenant and entity: its decoded parts, and a key if the entity has keys."""

    parts: tuple[str, ...]
    key: str | None = None

    @property
    def tokens(self) -> str:
        encoded = [encode_token(part) for part in self.parts]
        if self.key is not None:
            encoded += [KEY_MARKER, encode_token(self.key)]
        return ".".join(encoded)


def change_subject(tenant: str, entity: str, address: Address) -> str:
    assert address.parts, "a change has an address"
    return checked(f"hive.chg.{encode_token(tenant)}.{entity}.{address.tokens}")


def parse_change_subject(subject: str) -> tuple[str, str, Address]:
    """Return `(tenant, entity, address)` of a change's subject."""
    head, marker, key = subject.rpartition(f".{KEY_MARKER}.")
    tokens = (head if marker else subject).split(".")
    if len(tokens) < 5 or tokens[:2] != ["hive", "chg"]:
        raise InvalidRequest(f"subject: {subject!r} is no change", field="subject")
    parts = tuple(decode_token(token) for token in tokens[4:])
    return decode_token(tokens[2]), tokens[3], Address(parts, decode_token(key) if marker else None)


def change_prefix(entity: str, *parts: str, key: str | None = None) -> str:
    """Return the start of a change's address in wire tokens, such as `event.s1` or `memory.user.alice`."""
    return ".".join(filter(None, [entity, Address(parts, key).tokens]))


def change_filters(tenant: str, prefix: str | None = None) -> tuple[str, ...]:
    """Return the subjects of a tenant's changes at and below a prefix in wire tokens, or of all without a prefix."""
    start = f"hive.chg.{encode_token(tenant)}"
    if not prefix:
        return (f"{start}.>",)
    for token in prefix.split("."):
        if token != KEY_MARKER:
            decode_token(token)
    return checked(f"{start}.{prefix}"), checked(f"{start}.{prefix}.>")
