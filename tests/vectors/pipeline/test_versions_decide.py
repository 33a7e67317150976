"""The version alone decides which item is newer, wherever on the feed and in whichever order its changes arrive."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from hivemem_contracts.errors import InvalidRequest
from hivemem_runtime.bus.reactions.runner import ReceivedChange
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_vectors.pipeline.decisions.changes import version_of_change
from hivemem_vectors.pipeline.endpoints.peers import SessionService
from hivemem_vectors.pipeline.reactions import SessionFollower, memories_reaction

from .bench import Bench, change, memory
from .told import received

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_change_that_was_lost_and_told_again_is_indexed(bench: Bench) -> None:
    """It is announced again after later changes of other memories."""
    handle = memories_reaction(bench.indexer).handle
    first, lost, later, newest = (
        received(change("put", memory(key, version, f"text {key} {version}"), key, version))
        for key, version in (("a", 1), ("a", 2), ("b", 1), ("a", 3))
    )
    await handle([first])
    await handle([later])
    await handle([lost])
    await bench.check({"a": (2, "text a 2"), "b": (1, "text b 1")})
    await handle([newest])
    await handle([first, lost, later])
    await bench.check({"a": (3, "text a 3"), "b": (1, "text b 1")})


async def refused_for_good_or_taken(
    handle: Callable[[Sequence[ReceivedChange]], Awaitable[None]], odd: ReceivedChange
) -> None:
    """Handle an odd change: it may be accepted or refused for good. A retryable error would block all later changes."""
    with suppress(InvalidRequest):
        await handle([odd])


ODD_MEMORIES: tuple[dict[str, Any], ...] = (
    {"version": 3},
    {"version": -1},
    {"operation": "nothing"},
    {"operation": "erased", "value": None, "version": 4},
    {"value": [1, 2], "version": 9},
    {"value": {"namespace": 3}, "version": 9},
    {"key": None},
)
ODD_SESSIONS: tuple[dict[str, Any], ...] = (
    {"entity": "session", "operation": "created", "value": [1]},
    {"entity": "session", "operation": "deleted", "value": {"x": 1}},
    {"entity": "event", "operation": "appended", "value": 7},
    {"entity": "nothing", "operation": "nothing", "namespace": ""},
)


async def test_nonsense_leaves_the_index_as_it_is(bench: Bench) -> None:
    good = change("put", memory("a", 5, "text"), "a", 5)
    await bench.index(version_of_change(good))
    embedded = list(bench.embedder.embedded)
    memories = memories_reaction(bench.indexer).handle
    sessions = SessionFollower(bench.ledger, bench.indexer, SessionService(Asking())).handle
    for update in ODD_MEMORIES:
        await refused_for_good_or_taken(memories, received(good.model_copy(update=update)))
    for update in ODD_SESSIONS:
        await refused_for_good_or_taken(sessions, received(good.model_copy(update={"namespace": "s9", **update})))
    await bench.check({"a": (5, "text")})
    assert bench.embedder.embedded == embedded
