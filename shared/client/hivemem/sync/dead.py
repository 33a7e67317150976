"""Dead letters, for a synchronous client."""

from hivemem.dead import DeadLetters
from hivemem.sync.blocking import Blocking, blocking


class BlockingDeadLetters(Blocking[DeadLetters]):
    """The dead letters of one tenant. Reading them needs the right to use the JetStream API of the server."""

    list = blocking(DeadLetters.list)
    get = blocking(DeadLetters.get)
    replay = blocking(DeadLetters.replay)
    discard = blocking(DeadLetters.discard)
