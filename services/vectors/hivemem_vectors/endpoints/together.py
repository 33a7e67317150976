"""Doing something for many items at once, of which one may be refused."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from hivemem_contracts.errors import HiveError
from hivemem_vectors.decisions.drafting import Draft
from hivemem_vectors.decisions.syncing import Failure
from hivemem_vectors.endpoints.health import retry_after_ms

log = structlog.get_logger("hivemem.vectors")

REASON_CHARACTERS: Final = 500
OF_ALL: Final = frozenset({"dimension", "model"})
"""What is refused for these is no item's fault, and none would have more luck alone."""


async def together(drafts: Sequence[Draft], act: Callable[[Sequence[Draft]], Awaitable[None]]) -> None:
    """Where `act` cannot be done for now, all of them fail; where it is refused, those that it is refused for. The
    others are tried again without the one that was named, half of them at a time: so few tries go in vain, even where
    it is not said who is at fault."""
    if not drafts:
        return
    try:
        await act(drafts)
    except HiveError as error:
        others = _others(drafts, error)
        failed = [draft for draft in drafts if all(draft is not other for other in others)]
        for draft in failed:
            draft.failure = failure_of(error)
        if failed:
            _tell(error, len(failed))
        middle = len(others) // 2
        await together(others[:middle], act)
        await together(others[middle:], act)


def failure_of(error: HiveError) -> Failure:
    if error.retryable:
        return Failure(error.detail[:REASON_CHARACTERS], refused=False, wait=retry_after_ms(error) * 1_000)
    return Failure(f"{error.name}: {error.detail}"[:REASON_CHARACTERS], refused=True)


def _others(drafts: Sequence[Draft], error: HiveError) -> list[Draft]:
    """Those that are worth another try."""
    if error.retryable or len(drafts) == 1 or error.context.get("field") in OF_ALL:
        return []
    index = error.context.get("index")
    if not isinstance(index, int):
        return list(drafts)
    reached = 0
    for place, draft in enumerate(drafts):
        reached += len(draft.missing)
        if index < reached:
            return [*drafts[:place], *drafts[place + 1 :]]
    return list(drafts)


def _tell(error: HiveError, items: int) -> None:
    """What a refusal says may be of what was refused, which is nobody's business here."""
    if error.retryable:
        log.warning("items wait for the index", items=items, error=error.name, detail=error.detail)
    else:
        log.warning("items are refused", items=items, error=error.name, field=error.context.get("field"))
