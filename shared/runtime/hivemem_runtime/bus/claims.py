"""Claims: one worker of the fleet does something once, such as for one start of the server, and the others leave it."""

from typing import Final, Literal, get_args

from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import CLAIMS
from hivemem_runtime.bus import jetstream
from hivemem_runtime.bus.jetstream import JetStreamRefused, ask, message_of

Claim = Literal["scrubbed", "epoch_after", "made_anew"]
KINDS: Final[tuple[Claim, ...]] = get_args(Claim)
_NO_MESSAGE: Final = 10037
_TIMEOUT_SECONDS: Final = 5.0


async def claim(client: Client, what: Claim, value: str) -> bool:
    """Return whether the caller is the first one to claim this value; then nobody else is."""
    subject, sequence = f"$KV.{CLAIMS}.{what}", 0
    try:
        last = message_of(await ask(client, f"STREAM.MSG.GET.KV_{CLAIMS}", {"last_by_subj": subject}))
    except JetStreamRefused as error:
        if error.code != _NO_MESSAGE:
            raise
    else:
        if last.data == value.encode():
            return False
        sequence = last.sequence
    expected = {"Nats-Expected-Last-Subject-Sequence": str(sequence)}
    try:
        await jetstream.publish(client, subject, value.encode(), expected, timeout_seconds=_TIMEOUT_SECONDS)
    except Unavailable:
        return False
    return True
