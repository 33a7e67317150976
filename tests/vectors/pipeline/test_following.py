"""What the ledger knows of followed sessions decides, whichever worker comes first."""

from typing import Any

import pytest

from hivemem_contracts.large_values import reference_to
from hivemem_runtime.ledger.port import Append, Write
from hivemem_testing.heads import DictHeads
from hivemem_vectors.pipeline.decisions.changes import AskingSession, follow, let_go, version_of_event
from hivemem_vectors.pipeline.entities import FOLLOWED, Followed

from .bench import TENANT, Bench


@pytest.mark.asyncio(loop_scope="session")
async def test_an_event_under_way_moves_with_its_session(bench: Bench) -> None:
    followed = Followed(True, revision=2, scope=["project=q"])
    await bench.ledger.commit(
        Write(TENANT, "test", FOLLOWED, "s1", lambda heads, now: [Append(FOLLOWED, "s1", followed)])
    )
    event: dict[str, Any] = {"event_id": "e1", "sequence": 1, "author": "bot", "content": "text", "metadata": {}}
    told = version_of_event(TENANT, "s1", ["project=p"], {**event, "at": "2026-01-01T00:00:00Z"})
    await bench.index(told)
    [point] = (await bench.points()).values()
    assert point.values["scope"] == ["project=q"]
    await bench.check_points()


def test_of_large_content_the_text_of_the_metadata_is_indexed() -> None:
    event = {"sequence": 1, "author": "bot", "content": reference_to(TENANT, "s1", "ab" * 32, 300_000)}
    texts = [
        version_of_event(
            TENANT, "s1", [], {**event, "event_id": "e1", "metadata": metadata, "at": "2026-01-01T00:00:00Z"}
        ).text
        for metadata in ({}, {"text": "a guide"})
    ]
    assert texts == ["", "bot: a guide"]


def test_of_two_workers_the_one_that_knows_more_of_a_session_is_right() -> None:
    def session(revision: int) -> AskingSession:
        return AskingSession("acme", "s1", 1, revision, [f"project={revision}"], 0)

    heads = DictHeads()
    assert let_go(heads, "s1", 1) == [], "a session that is not followed needs no record"
    heads.apply(follow([session(5)], heads, 0))
    assert follow([session(4), session(5)], heads, 0) == []
    assert let_go(heads, "s1", 4) == []
    heads.apply(let_go(heads, "s1", 6))
    assert follow([session(5)], heads, 0) == []
    heads.apply(follow([session(7)], heads, 0))
    head = heads(FOLLOWED, "s1")
    assert head is not None
    assert head.value == Followed(True, since=1, revision=7, scope=["project=7"])
