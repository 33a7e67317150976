"""Publishes many durable commands, without waiting for each."""

import asyncio
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Self, cast, overload

from hivemem.pipeline import Pipeline
from hivemem.publishing import Body, Receipt
from hivemem.sync.blocking import Blocking, BlockingCommand, blocking, wrapped_method
from hivemem_contracts.operations import Fields


class BlockingPipeline(Blocking[Pipeline]):
    """Publishes without waiting for each acknowledgement, with a bounded number of commands in flight.

    Commands that wait are sent together, in the order in which they were given. Sixteen or more are an atomic batch:
    the bus stores all of it or nothing. When a command fails, later ones of its route are not sent. As a context
    manager it flushes at the end; if the block raised, it abandons unacknowledged commands.
    """

    @overload
    def publish(
        self, command: BlockingCommand[Fields, Any], /, *args: Fields.args, **fields: Fields.kwargs
    ) -> Future[Receipt]: ...
    @overload
    def publish(
        self, command: str, body: Body, /, *, route: str | None = None, message_id: str | None = None
    ) -> Future[Receipt]: ...
    def publish(self, command: Any, /, *args: Any, **fields: Any) -> Future[Receipt]:
        """Queue a command, waiting while `max_pending` are in flight.

        Returns a future of its receipt. Raises `InvalidRequest` and `TooLarge` at once. Later failures are set on the
        future, and raised by `flush`.
        """
        return self.thread.run(self._publish(wrapped_method(command), args, fields))

    async def _publish(self, command: Any, args: tuple[Any, ...], fields: dict[str, Any]) -> Future[Receipt]:
        publish: Any = self.wrapped.publish
        receipt = cast("asyncio.Future[Receipt]", await publish(command, *args, **fields))
        passed_on: Future[Receipt] = Future()
        passed_on.set_running_or_notify_cancel()  # its command is on its way, and cannot be called back
        receipt.add_done_callback(lambda receipt: _pass_on(receipt, passed_on))
        return passed_on

    flush = blocking(Pipeline.flush)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.thread.run(self.wrapped.__aexit__(kind, error, trace))


def _pass_on(receipt: "asyncio.Future[Receipt]", passed_on: Future[Receipt]) -> None:
    error = CancelledError("the pipeline was left") if receipt.cancelled() else receipt.exception()
    if error is None:
        passed_on.set_result(receipt.result())
    else:
        passed_on.set_exception(error)
