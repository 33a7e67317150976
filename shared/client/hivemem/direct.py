"""Messages of a subscription, without a queue or a task in between."""

import logging
from collections.abc import Callable

from nats.aio.msg import Msg

log = logging.getLogger("hivemem")


class Direct:
    """Receives the messages of a subscription in the read loop, in place of a future that takes only the first one."""

    def __init__(self, handle: Callable[[Msg], None]) -> None:
        self._handle = handle

    def cancelled(self) -> bool:
        return False

    def set_result(self, message: Msg) -> None:
        try:
            self._handle(message)
        except Exception:  # an error here would end the read loop, and the connection with it
            log.exception("a message on %s could not be handled", message.subject)
