"""The promise of each service about idempotency keys: one key is one command."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

import orjson

from hivemem_contracts.operations import ServiceContract
from hivemem_testing.agent import Agent, Body

_CHANGING = ("duplicate", "expires_at")

AgentT = TypeVar("AgentT", bound=Agent)

Case = Callable[[AgentT], Awaitable[tuple[Body, Body]]]
"""Prepares the state for an operation, and returns two bodies that request different things."""


def writes_of(contract: ServiceContract) -> list[str]:
    return [operation.name for operation in contract if operation.writes]


async def check_one_command(bot: AgentT, operation: str, case: Case[AgentT]) -> None:
    """Check that a repeated id gets the first answer for an equal body, in any field order, and is refused for another
    body."""
    body, other = await case(bot)
    first = await bot.ask(operation, body, id="one")
    for _ in range(2):
        refused = await bot.refusal(operation, other, id="one")
        assert (refused.code, refused.error["retryable"]) == (40906, False), refused.error
        assert refused.context == {"field": "Nats-Msg-Id"}
        again = await bot.send(operation, orjson.dumps(reordered(body)), id="one")
        assert lasting(again) == lasting(first)
        assert (first.get("duplicate"), again.get("duplicate")) in ((None, None), (False, True))
    # The refusal concerned the reused id: under a new id the other body is accepted.
    await bot.ask(operation, other, id="another")


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("Body", value)
        return {name: reordered(fields[name]) for name in reversed(fields)}
    if isinstance(value, list):
        return [reordered(item) for item in cast("Sequence[Any]", value)]
    return value


def lasting(answer: Any) -> Any:
    """Return an answer without the fields that change each time, such as the expiry of an upload."""
    if isinstance(answer, dict):
        return {name: lasting(value) for name, value in cast("Body", answer).items() if name not in _CHANGING}
    if isinstance(answer, list):
        return [lasting(item) for item in cast("Sequence[Any]", answer)]
    return answer
