"""The one door for policy: what a sender may do, and where a worker may answer."""

from typing import TYPE_CHECKING

from hivemem_contracts.subjects import Sender
from hivemem_runtime.bus.requests.replies import IMPORTED, PLAIN_INBOX, inbox_of, own_inbox

if TYPE_CHECKING:
    from hivemem_runtime.service import Call


class Policy:
    """The policy without tenancy rules: a sender who may publish on an operation's subject may do the operation."""

    def __init__(self, *, own_inboxes: bool = False) -> None:
        """`own_inboxes` refuses answers to plain inboxes, which any client of the server may subscribe to."""
        self._own_inboxes = own_inboxes

    def permit(self, call: "Call") -> None:
        """Raise `Forbidden` if the sender may not do what the call asks for. `call.body` is decoded already."""

    def reply_allowed(self, sender: Sender | None, reply: str) -> bool:
        """Return whether a worker may answer `sender` on the subject `reply`: an inbox that is the caller's own by its
        prefix, or a plain one unless those are refused. Anywhere else an answer would be a message in the worker's
        name. An answer to another account of the server is delivered there with the caller's own rights."""
        inbox = inbox_of(reply)
        if inbox == IMPORTED:
            return True
        if inbox == PLAIN_INBOX:
            return not self._own_inboxes
        return inbox is not None and sender is not None and inbox == own_inbox(sender)
