"""Claims: one worker of the fleet does something once, such as for one start of the server, and the others leave it."""

from typing import Final, Literal, get_args

from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import CLAIMS
from hivemem_runtime.bus import jetstream
from hivemem_runtime.bus.jetstream import NO_MESSAGE, JetStreamRefused, StoredMessage, ask, message_of

Claim = Literal["scrubbing", "scrubbed", "epoch_after", "made_anew"]
KINDS: Final[tuple[Claim, ...]] = get_args(Claim)
_TIMEOUT_SECONDS: Final = 5.0


async def claim(client: Client, what: Claim, value: str) -> bool:
    """Return whether the caller is the first one to claim this value; then nobody else is."""
    last = await _last(client, what)
    if last is not None and last.data == value.encode():
        return False
    expected = {"Nats-Expected-Last-Subject-Sequence": str(last.sequence if last else 0)}
    try:
        await jetstream.publish(client, _subject(what), value.encode(), expected, timeout_seconds=_TIMEOUT_SECONDS)
    except Unavailable:
        return False
    return True


async def claimed(client: Client, what: Claim) -> str:
    """Return the value that was claimed last; empty before the first claim."""
    last = await _last(client, what)
    return last.data.decode() if last is not None else ""


async def _last(client: Client, what: Claim) -> StoredMessage | None:
    try:
        return message_of(await ask(client, f"STREAM.MSG.GET.KV_{CLAIMS}", {"last_by_subj": _subject(what)}))
    except JetStreamRefused as error:
        if error.code != NO_MESSAGE:
            raise
        return None


def _subject(what: Claim) -> str:
    return f"$KV.{CLAIMS}.{what}"
