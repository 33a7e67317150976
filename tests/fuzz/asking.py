"""Many concurrent requests on one connection, each sent as exact bytes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

from hivemem_contracts.frames import Delivered, Frames

from .cases import Case

READ_BYTES: Final = 1_048_576
ANSWER_SECONDS: Final = 60.0
"""Longer than any answer takes, so that an answer that exceeds it is lost."""

UNDER_WAY: Final = 256
INBOX: Final = b"_INBOX.fuzz."


class Asking:
    """One connection. The server closes it at any invalid frame, which fails all waiting requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: dict[bytes, asyncio.Future[Delivered]] = {}
        self._reading = asyncio.create_task(self._read())

    async def ask(self, case: Case) -> Delivered | None:
        """Return the answer, or None after `ANSWER_SECONDS`."""
        name = b"%d" % case.number
        answer = self._waiting[name] = asyncio.get_running_loop().create_future()
        size = len(case.headers) + len(case.body)
        if case.headers:
            head = b"HPUB %b %b%b %d %d\r\n" % (case.subject, INBOX, name, len(case.headers), size)
        else:
            head = b"PUB %b %b%b %d\r\n" % (case.subject, INBOX, name, size)
        self._writer.write(b"".join((head, case.headers, case.body, b"\r\n")))
        try:
            with suppress(ConnectionResetError):  # the reader reports the reason
                await self._writer.drain()
            return await asyncio.wait_for(answer, ANSWER_SECONDS)
        except TimeoutError:
            return None
        finally:
            del self._waiting[name]

    async def ask_all(self, cases: Iterable[Case]) -> AsyncIterator[tuple[Case, Delivered | None]]:
        """Yield each case with its answer, in the order of the answers."""
        under_way: set[asyncio.Task[tuple[Case, Delivered | None]]] = set()

        async def one(case: Case) -> tuple[Case, Delivered | None]:
            return case, await self.ask(case)

        for case in cases:
            under_way.add(asyncio.create_task(one(case)))
            if len(under_way) < UNDER_WAY:
                continue
            done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield task.result()
        for last in asyncio.as_completed(under_way):
            yield await last

    async def close(self) -> None:
        self._reading.cancel()
        self._writer.close()
        await self._writer.wait_closed()

    async def _read(self) -> None:
        frames = Frames()
        why = "the server has closed the connection"
        with suppress(ConnectionResetError):
            while data := await self._reader.read(READ_BYTES):
                for item in frames.feed(data):
                    if isinstance(item, Delivered):
                        self._answered(item)
                    elif item.word == b"PING":
                        self._writer.write(b"PONG\r\n")
                    elif item.word == b"-ERR":
                        why = f"the server refuses: {item.rest!r}"
        self._fail(ConnectionError(why))

    def _answered(self, item: Delivered) -> None:
        answer = self._waiting.get(item.subject.removeprefix(INBOX))
        if answer is not None and not answer.done():
            answer.set_result(item)

    def _fail(self, error: ConnectionError) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(error)


@asynccontextmanager
async def asking(url: str) -> AsyncGenerator[Asking]:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB %b* 1\r\n' % INBOX)
    asking = Asking(reader, writer)
    try:
        yield asking
    finally:
        await asking.close()
