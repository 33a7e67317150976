"""Durable commands: the operations that answer requests also carry out the commands in INGEST, many at a time."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from hivemem_contracts.changes import traceparent_of
from hivemem_contracts.errors import HiveError, Internal, InvalidRequest
from hivemem_contracts.nearest_name import nearest_name
from hivemem_contracts.operations import AnyOperation
from hivemem_contracts.streams import COMMAND_ID, MESSAGE_ID
from hivemem_contracts.subjects import dead_subject_of, decode_token, sender_of
from hivemem_runtime.bus.dead_letters import DeadLetter, DeadLetters
from hivemem_runtime.bus.delivery import DurableMessage
from hivemem_runtime.service import Call, Service

log = structlog.get_logger("hivemem.bus")

PIPELINE: Final = 512
"""Commits under way at once for one partition."""
ATTEMPTS: Final = 5
"""How often a message may fail for no known reason before it is given up."""
REMEMBERED: Final = 1_024
"""Messages whose failures are remembered; one for each partition is stuck at a time."""
STORED_TOKENS: Final = 8


@dataclass(frozen=True, slots=True)
class _Step:
    """A message that was begun: what it does is under way, or it failed at once."""

    message: DurableMessage
    under_way: "asyncio.Future[Any] | None" = None
    failed: Exception | None = None
    key: tuple[str, str, str] | None = None
    """What its single commit writes to."""
    last: bool = False
    """Nothing behind it may begin before it is settled."""
    call: Call | None = None

    def failure(self) -> BaseException | None:
        if self.under_way is None:
            return self.failed
        return asyncio.CancelledError() if self.under_way.cancelled() else self.under_way.exception()


class Commands:
    """Handles the messages of a service's partitions (see `delivery.Handle`).

    Commits are submitted in order without waiting for one another, so commands share commits of the ledger. A command
    of several steps runs alone: after all commands before it, and before any command behind it. A command that fails
    for now is not settled, and neither is any command behind it. A command that can never succeed goes to DEAD, which
    settles it.
    """

    def __init__(self, service: Service, dead: DeadLetters) -> None:
        self._service = service
        self._dead = dead
        self._failures: dict[int, int] = {}
        """Counts unexplained failures by stream sequence. The consumer's own count begins anew with each owner."""

    async def handle(self, messages: Sequence[DurableMessage]) -> int:
        settled = 0
        while settled < len(messages):
            steps = self._begin(messages[settled : settled + PIPELINE])
            count = await self._settle(steps)
            settled += count
            if count < len(steps):
                break
        return settled

    def _begin(self, messages: Sequence[DurableMessage]) -> list[_Step]:
        """Begin as many, from the front, as may be under way together; at least one."""
        steps: list[_Step] = []
        for message in messages:
            step = self._begin_one(message, alone=not steps)
            if step is None:
                break
            steps.append(step)
            if step.last:
                break
        return steps

    def _begin_one(self, message: DurableMessage, *, alone: bool) -> _Step | None:
        """Begin a command. Return None for one that has to be alone and is not: it has several steps, or failed
        before."""
        suspect = message.sequence in self._failures
        if suspect and not alone:
            return None
        if message.fatal:
            return _Step(message, failed=Internal("no worker survived it"), last=True)
        call: Call | None = None
        try:
            call = self._call(message)
            begun = self._service.begin(call, message.data)
        except HiveError as error:
            return _Step(message, failed=error, last=error.retryable, call=call)
        except Exception as error:
            return _Step(message, failed=error, last=True, call=call)
        if begun is None:
            return _Step(message, _future(self._service.run(call)), last=True, call=call) if alone else None
        # One that is refused already, for a full queue, must not be overtaken by one that finds room again.
        last = suspect or begun.commit.done()
        key = begun.write.tenant, begun.write.entity.name, begun.write.id
        return _Step(message, begun.commit, key=key, last=last, call=call)

    def _call(self, message: DurableMessage) -> Call:
        """Return the call that a stored subject and its headers describe. Raises `InvalidRequest`."""
        if not message.readable:
            raise InvalidRequest("headers: they are no header block of NATS", field="headers")
        tokens = message.subject.split(".")
        if len(tokens) != STORED_TOKENS:
            raise InvalidRequest(f"subject: {message.subject!r} is no command", field="subject")
        tenant, agent, service, name, route = tokens[3:]
        operation = self._service.contract.get(name) if service == self._service.contract.name else None
        if operation is None or not operation.durable:
            raise InvalidRequest(
                f"subject: {service}.{name} is no operation that can be published{self._instead(operation, name)}",
                field="subject",
            )
        return Call(
            sender=sender_of(tenant, agent),
            operation=operation,
            message_id=message_id(message),
            traceparent=traceparent_of(message.headers),
            route=decode_token(route),
            published_at=message.stored_at // 1_000,
        )

    def _instead(self, operation: AnyOperation | None, name: str) -> str:
        """Say what the publisher may have meant."""
        if operation is not None:
            return ", only requested"
        durable = [known.name for known in self._service.contract if known.durable]
        nearest = nearest_name(name, durable)
        return f"; did you mean {nearest!r}?" if nearest else f"; there are {', '.join(durable)}"

    async def _settle(self, steps: list[_Step]) -> int:
        """Wait for all, and answer how many from the front are done for good or given up."""
        waiting = [step.under_way for step in steps if step.under_way is not None]
        if waiting:
            await asyncio.wait(waiting)
        # Of all of them, also behind the first that failed: an exception that nobody looks at is taken for a mistake.
        failures = [step.failure() for step in steps]
        letters: dict[int, tuple[_Step, HiveError]] = {}
        settled = len(steps)
        for place, (step, failure) in enumerate(zip(steps, failures, strict=True)):
            if failure is None:
                continue
            reason = self._reason_to_give_up(step, failure, steps[place + 1 :])
            if reason is None:
                settled = place
                break
            letters[place] = step, reason
        if letters:
            settled = await self._bury(letters, settled)
        if self._failures:
            for step in steps[:settled]:
                self._failures.pop(step.message.sequence, None)
        return settled

    def _reason_to_give_up(self, step: _Step, failure: BaseException, behind: list[_Step]) -> HiveError | None:
        """Return why a command goes to the dead letters, or None if a retry may succeed."""
        sequence = step.message.sequence
        if isinstance(failure, HiveError) and not failure.retryable:
            return failure
        if isinstance(failure, HiveError | asyncio.CancelledError):
            self._remember(sequence, self._failures.get(sequence, 0))
            log.warning("command postponed", subject=step.message.subject, sequence=sequence, error=str(failure))
            return None
        attempts = self._failures.get(sequence, 0) + 1
        log.error("command failed", subject=step.message.subject, sequence=sequence, attempt=attempts, exc_info=failure)
        # Once a later write to its key is in, this one could only come out of order.
        overtaken = any(step.key == later.key is not None and later.failure() is None for later in behind)
        if overtaken or attempts >= ATTEMPTS:
            return Internal("the worker failed to do it; its log says how")
        self._remember(sequence, attempts)
        return None

    def _remember(self, sequence: int, failures: int) -> None:
        if sequence not in self._failures and len(self._failures) >= REMEMBERED:
            self._failures.pop(next(iter(self._failures)))
        self._failures[sequence] = failures

    async def _bury(self, letters: dict[int, tuple[_Step, HiveError]], settled: int) -> int:
        """How many are settled once what is given up is stored, or could not be."""
        given_up = [self._give_up(step, reason) for step, reason in letters.values()]
        results = await asyncio.gather(*given_up, return_exceptions=True)
        for (place, (step, _)), result in zip(letters.items(), results, strict=True):
            if isinstance(result, BaseException):
                log.warning("dead letter not stored", sequence=step.message.sequence, error=str(result))
                if not (isinstance(result, HiveError) and result.retryable):
                    raise result
                return min(place, settled)
        return settled

    async def _give_up(self, step: _Step, reason: HiveError) -> None:
        if step.call is not None and self._service.looks_at_refusal(step.call, reason):
            await self._service.refused(step.call, reason)
        await self._dead.publish(dead_letter(step.message, reason))


def message_id(message: DurableMessage) -> str:
    """The publisher's id, or one that is the same at every delivery, so that a second one adds nothing."""
    known = message.headers.get(COMMAND_ID) or message.headers.get(MESSAGE_ID)
    return known or f"{message.stored_at}-{message.sequence}"


def dead_letter(message: DurableMessage, reason: HiveError) -> DeadLetter:
    tokens = message.subject.split(".")
    return DeadLetter(
        subject=dead_subject_of(tokens[3:7]),
        data=message.data,
        error=reason,
        original_subject=".".join([*tokens[:2], *tokens[3:]]),
        original_id=message_id(message),
        id=f"in:{message.stored_at}:{message.sequence}",
        traceparent=traceparent_of(message.headers),
    )


def _future(awaitable: Awaitable[Any]) -> "asyncio.Future[Any]":
    return asyncio.ensure_future(awaitable)
