"""Messages that a client has published to windows, until a read shows them: a worker applies them a moment later."""

from collections import deque
from collections.abc import Collection, Sequence
from time import monotonic
from typing import Final, NamedTuple

from hivemem_contracts.windows.models import WindowMessage

UNSEEN_SECONDS: Final = 30.0
"""How long a published message is added to reads that do not have it: it may have left the window at once."""
UNSEEN_MESSAGES: Final = 1_000


class _Unseen(NamedTuple):
    window: str
    message_id: str
    message: WindowMessage
    until: float


class UnseenMessages:
    """The newest messages of a client, in the order in which it published them."""

    def __init__(self) -> None:
        self._messages: deque[_Unseen] = deque(maxlen=UNSEEN_MESSAGES)

    def add(self, window: str, message_id: str, message: WindowMessage) -> None:
        self._messages.append(_Unseen(window, message_id, message, monotonic() + UNSEEN_SECONDS))

    def after(self, window: str, read: Collection[str]) -> Sequence[WindowMessage]:
        """Return the messages of a window that were published after the last one that was read.

        A worker applies them in order, so all before it are applied as well.
        """
        now = monotonic()
        found = [unseen for unseen in self._messages if unseen.window == window]
        applied = max((place for place, unseen in enumerate(found) if unseen.message_id in read), default=-1)
        left = [unseen for unseen in found[applied + 1 :] if unseen.until > now]
        gone = {unseen.message_id for unseen in found} - {unseen.message_id for unseen in left}
        self._messages = deque(
            (unseen for unseen in self._messages if unseen.message_id not in gone), maxlen=UNSEEN_MESSAGES
        )
        return [unseen.message for unseen in left]
