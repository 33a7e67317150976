"""The key by which workers know one another's changes: made once, kept in a bucket that agents have no rights to."""

import secrets
from hashlib import blake2b
from typing import Any, Final

from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import FEED_KEY
from hivemem_runtime.bus import jetstream
from hivemem_runtime.bus.jetstream import JetStreamRefused, ask

SUBJECT: Final = f"$KV.{FEED_KEY}.feed_key"
_STREAM: Final = f"KV_{FEED_KEY}"
_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 16
_NO_MESSAGE: Final = 10037
_TIMEOUT_SECONDS: Final = 5.0


async def fleet_key(client: Client, known: bytes | None = None) -> bytes:
    """Return the key that the fleet shares. The first caller stores `known`, or a new key. Raises `Unavailable`."""
    found = await _read(client)
    if found is not None:
        return found
    made = known or secrets.token_bytes(_KEY_BYTES)
    only_once = {"Nats-Expected-Last-Subject-Sequence": "0"}
    try:
        await jetstream.publish(client, SUBJECT, made, only_once, timeout_seconds=_TIMEOUT_SECONDS)
    except Unavailable:
        # Another worker was faster, or nothing answers, which the next read tells.
        found = await _read(client)
        if found is None:
            raise
        return found
    return made


async def _read(client: Client) -> bytes | None:
    try:
        answer: dict[str, Any] = await ask(client, f"STREAM.MSG.GET.{_STREAM}", {"last_by_subj": SUBJECT})
    except JetStreamRefused as error:
        if error.code == _NO_MESSAGE:
            return None
        raise Unavailable(f"the bucket {FEED_KEY} cannot be read: {error.description}", retry_after_ms=1000) from error
    return jetstream.message_of(answer).data


def signature(key: bytes, ledger: str, subject: str, identity: str, body: bytes) -> str:
    """Return the header that proves that a worker wrote this message, and names the ledger that it is from."""
    mac = blake2b(body, key=key, digest_size=_SIGNATURE_BYTES)
    mac.update(f"\0{ledger}\0{subject}\0{identity}".encode())
    return f"{ledger}.{mac.hexdigest()}"


def fingerprint(key: bytes) -> str:
    """Return a short name of a key that tells nothing of it."""
    return blake2b(key, digest_size=6, person=b"fingerprint").hexdigest()
