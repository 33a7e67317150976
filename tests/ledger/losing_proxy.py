"""A TCP proxy to MongoDB that loses chosen commands, or the replies to them."""

import socket
import threading
from contextlib import suppress
from typing import Literal, Self
from urllib.parse import urlsplit

Loss = Literal["command", "reply"]
_BYTES = 65_536


class LosingProxy:
    """Forwards bytes both ways, in threads of its own, because a driver may block the event loop.

    A chunk from the driver that names the watched command is lost a given number of times, or its reply is; the
    connection then ends, as it does when a server or a cable fails.
    """

    def __init__(self, url: str) -> None:
        place = urlsplit(url.partition(",")[0])
        self._target = (place.hostname or "127.0.0.1", place.port or 27017)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._sockets: list[socket.socket] = []
        self._watched = b""
        self._loss: Loss = "reply"
        self._times = 0
        self.lost = 0

    @property
    def url(self) -> str:
        return f"mongodb://127.0.0.1:{self._listener.getsockname()[1]}/?directConnection=true"

    def lose(self, loss: Loss, command: str, times: int) -> None:
        self._watched, self._loss, self._times = command.encode(), loss, times

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        # The first thread starts the others, so no thread starts after it has ended.
        self._threads[0].join()
        for each in self._sockets:
            _end(each)
        for thread in self._threads[1:]:
            thread.join()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._sockets += [near, far]
            reply_lost = threading.Event()
            for carry in (self._carry_commands, self._carry_replies):
                thread = threading.Thread(target=carry, args=(near, far, reply_lost))
                self._threads.append(thread)
                thread.start()

    def _carry_commands(self, near: socket.socket, far: socket.socket, reply_lost: threading.Event) -> None:
        with suppress(OSError):
            while chunk := near.recv(_BYTES):
                if self._times and self._watched in chunk:
                    self._times -= 1
                    self.lost += 1
                    if self._loss == "command":
                        break
                    reply_lost.set()
                far.sendall(chunk)
        _end(near)
        _end(far)

    def _carry_replies(self, near: socket.socket, far: socket.socket, reply_lost: threading.Event) -> None:
        with suppress(OSError):
            while chunk := far.recv(_BYTES):
                if reply_lost.is_set():
                    break
                near.sendall(chunk)
        _end(near)
        _end(far)


def _end(connection: socket.socket) -> None:
    """Close both directions, which wakes both threads."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
