"""Claims: one worker of the fleet does something once, such as for one start of the server, and the others leave it."""

from typing import Final

from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import FLEET
from hivemem_runtime.bus import jetstream
from hivemem_runtime.bus.jetstream import JetStreamRefused, StoredMessage, ask, message_of

_NO_MESSAGE: Final = 10037
_TIMEOUT_SECONDS: Final = 5.0


async def claim(client: Client, what: str, value: str) -> bool:
    """Return whether the caller is the first one to claim this value; then nobody else is."""
    subject = f"$KV.{FLEET}.{what}"
    last = await _last(client, subject)
    if last is not None and last.data == value.encode():
        return False
    expected = {"Nats-Expected-Last-Subject-Sequence": str(last.sequence if last else 0)}
    try:
        await jetstream.publish(client, subject, value.encode(), expected, timeout_seconds=_TIMEOUT_SECONDS)
    except Unavailable:
        return False
    return True


async def claimed(client: Client, what: str) -> str:
    """Return the value that was claimed last; empty where there is none."""
    last = await _last(client, f"$KV.{FLEET}.{what}")
    return last.data.decode() if last is not None else ""


async def _last(client: Client, subject: str) -> StoredMessage | None:
    try:
        return message_of(await ask(client, f"STREAM.MSG.GET.KV_{FLEET}", {"last_by_subj": subject}))
    except JetStreamRefused as error:
        if error.code != _NO_MESSAGE:
            raise
        return None
