"""Publishes many durable commands: a few side by side, more as one atomic batch, which costs the bus one `fsync`."""

import asyncio
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, overload

from nats.aio.msg import Msg

from hivemem.connection import Outgoing
from hivemem.jetstream import jetstream_result
from hivemem.methods import Command
from hivemem.publishing import Body, Prepared, Receipt, prepare, publish_prepared, refusal
from hivemem.retries import persist
from hivemem_contracts.errors import HiveError, Unavailable
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.operations import Fields

if TYPE_CHECKING:
    from hivemem.hive import Hive

PIPELINE_PENDING: Final = 256
BATCH_FROM: Final = 16
"""Fewer commands go out side by side: a batch takes the server several milliseconds, however small it is."""
BATCH_COMMANDS: Final = 500
"""The server takes 1,000."""
BATCH_BYTES: Final = 8 * 1024 * 1024
_ATOMIC_DISABLED: Final = 10174


class _Waiting(NamedTuple):
    command: Prepared
    receipt: asyncio.Future[Receipt]


class Pipeline:
    """Publishes without waiting for each acknowledgement, with a bounded number of commands in flight.

    Commands that wait are sent together, in the order in which they were given. Sixteen or more are an atomic batch:
    the bus stores all of it or nothing. When a command fails, later ones of its route are not sent. As a context
    manager it flushes at the end; if the block raised, it abandons unacknowledged commands.
    """

    def __init__(self, hive: "Hive", max_pending: int) -> None:
        if max_pending < 1:
            raise ValueError("max_pending is one or more")
        self._hive = hive
        self._slots = asyncio.Semaphore(max_pending)
        self._waiting: list[_Waiting] = []
        self._pending: set[asyncio.Future[Receipt]] = set()
        self._sender: asyncio.Task[None] | None = None
        self._atomic = True
        self._failed: dict[str, HiveError] = {}

    @overload
    async def publish(
        self, command: Command[Fields, Any], /, *args: Fields.args, **fields: Fields.kwargs
    ) -> asyncio.Future[Receipt]: ...
    @overload
    async def publish(
        self, command: str, body: Body, /, *, route: str | None = None, message_id: str | None = None
    ) -> asyncio.Future[Receipt]: ...
    async def publish(self, command: Any, /, *args: Any, **fields: Any) -> asyncio.Future[Receipt]:
        """Queue a command, waiting while `max_pending` are in flight.

        Returns a future of its receipt. Raises `InvalidRequest` and `TooLarge` at once. Later failures are set on the
        future, and raised by `flush`.
        """
        prepared = await prepare(self._hive, command, args, fields)
        await self._slots.acquire()
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._pending.add(receipt)
        receipt.add_done_callback(self._settle)
        self._waiting.append(_Waiting(prepared, receipt))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_waiting())
        return receipt

    def _settle(self, receipt: asyncio.Future[Receipt]) -> None:
        self._slots.release()
        self._pending.discard(receipt)
        if not receipt.cancelled():
            receipt.exception()  # marked as retrieved, because `flush` raises it

    async def _send_waiting(self) -> None:
        """Send group by group: commands that arrive while one group is under way form the next group."""
        while self._waiting:
            group = self._take()
            try:
                if self._atomic and len(group) >= BATCH_FROM:
                    await self._send_batch(group)
                else:
                    await self._send_singly(group)
            except Exception as error:  # a closed client, for instance: the waiting callers get the error
                for _, receipt in group:
                    _refuse(receipt, error)

    def _take(self) -> list[_Waiting]:
        size = 0
        for count, (command, _) in enumerate(self._waiting):
            size += len(command.payload)
            if count == BATCH_COMMANDS or (count and size > BATCH_BYTES):
                break
        else:
            count = len(self._waiting)
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return [waiting for waiting in group if not self._is_held_up(waiting)]

    def _is_held_up(self, waiting: _Waiting) -> bool:
        """Refuse commands after a failure on their route."""
        command, receipt = waiting
        failed = self._failed.get(command.route)
        if failed is not None:
            detail = (
                f"publishing {command.what}: not sent, because an earlier command of route {command.route!r} failed: "
                f"{failed.detail}"
            )
            _refuse(receipt, Unavailable(detail, reason="earlier_failed"))
        return failed is not None

    async def _send_batch(self, group: Sequence[_Waiting]) -> None:
        """Send a batch. If the bus refuses it for good, send its commands one by one to find the faulty one."""
        connection, options = self._hive.connection, self._hive.options

        async def attempt(seconds: float) -> Msg:
            return await connection.request_batch(_batch_of(group), seconds)

        try:
            message = await persist(connection, attempt, options, f"publishing {len(group)} commands", refusal)
        except HiveError as error:
            if not error.retryable:
                self._atomic = error.context.get("err_code") != _ATOMIC_DISABLED
                await self._send_singly(group)
                return
            for command, receipt in group:
                self._failed[command.route] = error
                _refuse(receipt, error)
            return
        last = int(jetstream_result(message.data)["seq"])
        for sequence, (command, receipt) in enumerate(group, last - len(group) + 1):
            _resolve(receipt, Receipt(command.message_id, sequence, command.route))

    async def _send_singly(self, group: Iterable[_Waiting]) -> None:
        """Send the commands of each route one after the other, the routes side by side."""
        routes: dict[str, list[_Waiting]] = {}
        for waiting in group:
            routes.setdefault(waiting.command.route, []).append(waiting)
        await asyncio.gather(*map(self._send_route, routes.values()))

    async def _send_route(self, group: Sequence[_Waiting]) -> None:
        for waiting in group:
            if self._is_held_up(waiting):
                continue
            command, receipt = waiting
            try:
                _resolve(receipt, await publish_prepared(self._hive.connection, command, self._hive.options))
            except HiveError as error:
                self._failed[command.route] = error
                _refuse(receipt, error)

    async def flush(self) -> None:
        """Wait until everything is acknowledged, or raise the first failure; after that the pipeline can be used
        again."""
        while self._pending:
            await asyncio.wait(tuple(self._pending))
        if self._failed:
            errors = list(self._failed.values())
            self._failed = {}
            if len(errors) > 1:
                errors[0].add_note(f"commands of {len(errors) - 1} more routes failed")
            raise errors[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.flush()
            return
        self._waiting.clear()
        for receipt in tuple(self._pending):
            receipt.cancel()
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)


def _batch_of(group: Sequence[_Waiting]) -> list[Outgoing]:
    """Return the messages of one attempt: each attempt is a batch of its own, whatever the outcome of the previous
    one."""
    batch = new_id()
    messages: list[Outgoing] = []
    for place, (command, _) in enumerate(group, 1):
        headers = {**command.headers, "Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(place)}
        if place == len(group):
            headers["Nats-Batch-Commit"] = "1"
        messages.append(Outgoing(command.subject, command.payload, headers))
    return messages


def _resolve(receipt: asyncio.Future[Receipt], result: Receipt) -> None:
    if not receipt.done():
        receipt.set_result(result)


def _refuse(receipt: asyncio.Future[Receipt], error: Exception) -> None:
    if not receipt.done():
        receipt.set_exception(error)
