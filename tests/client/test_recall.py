"""`hive.recall` and `hive.vectors` find written memories by meaning, and wait up to the requested time."""

from datetime import UTC, datetime
from typing import Any, get_type_hints

import pytest

import hivemem
from hivemem.methods import ServiceMethods, published
from hivemem.options import CallOptions
from hivemem.wait_options import patient_options
from hivemem_contracts.limits import RECALL_WAIT_DEFAULT_MS
from hivemem_contracts.memory import operations as memory
from hivemem_contracts.operations import AnyOperation
from hivemem_contracts.vectors import operations as vectors
from hivemem_contracts.vectors.replies import SweepPage

from .fleet import Asked, Fleet

MOMENT = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
FOUND = hivemem.Recalled(
    namespace="user:alice",
    key="seat",
    version=2,
    value={"side": "window"},
    memory_type="semantic",
    updated_at=MOMENT,
    text="window",
    score=0.61,
    scores=hivemem.Scores(dense=0.7, keyword=0.25, recency=1.0, importance=0.0),
)
DEGRADED = hivemem.Degraded(reasons=["embedder", "behind"], detail="the model is loading; 2 memories wait")


def answer(**fields: Any) -> hivemem.RecallAnswer:
    return hivemem.RecallAnswer(items=[FOUND], **fields)


async def test_recall_sends_what_it_is_given_and_nothing_else(hive: hivemem.Hive, fleet: Fleet) -> None:
    fleet.answers["vectors.recall"] = lambda _: answer(degraded=DEGRADED, cut="tokens")

    found = await hive.recall("where does she sit")
    await hive.recall(
        "where does she sit",
        namespace_prefix="user:alice",
        memory_type="semantic",
        filter=hivemem.RecallFilter(metadata={"lang": "en"}, updated_after=MOMENT),
        limit=3,
        weights=hivemem.Weights(recency=0.25),
        rerank=True,
        max_tokens=100,
        min_version=2,
        wait_ms=0,
    )

    assert (found.items, found.degraded, found.cut) == ([FOUND], DEGRADED, "tokens")
    plain, full = fleet.asked
    assert plain.subject == "hive.req.acme.bot.vectors.recall"
    assert plain.message_id is None
    assert plain.body == {"query": "where does she sit", "limit": 10}
    assert full.body == {
        "query": "where does she sit",
        "namespace_prefix": "user:alice",
        "memory_type": "semantic",
        "filter": {"metadata": {"lang": "en"}, "updated_after": "2026-01-31T09:30:00.000000Z"},
        "limit": 3,
        "weights": {"recency": 0.25},
        "rerank": True,
        "max_tokens": 100,
        "min_version": 2,
        "wait_ms": 0,
    }


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"query": " "}, "query"),
        ({"query": "a", "limit": 101}, "limit"),
        ({"query": "a", "namespace_prefix": "Alice"}, "namespace_prefix"),
        ({"query": "a", "wait_ms": 60_000}, "wait_ms"),
        ({"query": "a", "memory_type": "vague"}, "memory_type"),
    ],
)
async def test_a_wrong_field_is_named_before_anything_is_sent(
    hive: hivemem.Hive, fleet: Fleet, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(hivemem.InvalidRequest) as refused:
        await hive.recall(**fields)

    assert refused.value.context["field"] == field
    assert fleet.asked == []


def test_recall_takes_every_field_of_its_operation() -> None:
    takes = set(get_type_hints(hivemem.Hive.recall)) - {"return"}

    assert takes == set(vectors.RECALL.request.model_fields)


@pytest.mark.parametrize(
    ("operation", "fields", "on_top", "each_try"),
    [
        (vectors.RECALL, {"query": "a"}, 0.0, 0.0),
        (vectors.RECALL, {"query": "a", "wait_ms": 0}, 0.0, 0.0),
        (vectors.RECALL, {"query": "a", "wait_ms": 8_000}, 8.0, 8.0),
        (vectors.RECALL, {"query": "a", "wait_ms": 8_000, "min_version": 2}, 8.0, 8.0),
        (vectors.RECALL, {"query": "a", "min_version": 2}, RECALL_WAIT_DEFAULT_MS / 1_000, 5.0),
        (vectors.RECALL, {"query": "a", "min_version": 2, "wait_ms": 0}, 0.0, 0.0),
        (memory.LEASE, {"namespace": "user:alice", "ttl_ms": 1_000, "wait_ms": 60_000}, 60.0, 0.0),
        (memory.LIST, {"prefix": "user"}, 0.0, 0.0),
    ],
)
def test_what_a_request_asks_to_wait_comes_on_top(
    operation: AnyOperation, fields: dict[str, Any], on_top: float, each_try: float
) -> None:
    """A waiting query gets the extra time in each try; a waiting write keeps its place by its id, over all tries."""
    options = CallOptions(timeout_seconds=15.0, attempt_seconds=5.0)

    patient = patient_options(options, operation, operation.request.model_validate(fields))

    assert (patient.timeout_seconds, patient.attempt_seconds) == (15.0 + on_top, 5.0 + each_try)


async def test_a_sweep_goes_on_where_the_part_before_stopped(hive: hivemem.Hive, fleet: Fleet) -> None:
    pages = {
        None: SweepPage(checked=100, missing=1, left_over=0, cursor="further"),
        "further": SweepPage(checked=7, missing=0, left_over=2, cursor=None),
    }

    def sweep(asked: Asked) -> SweepPage:
        return pages[asked.body["cursor"]]

    fleet.answers["vectors.sweep"] = sweep

    parts = [part async for part in hive.with_options(message_id="m1").vectors.sweep_all(dry_run=True)]

    assert parts == list(pages.values())
    assert [asked.body["dry_run"] for asked in fleet.asked] == [True, True]
    assert len({asked.message_id for asked in fleet.asked} - {"m1"}) == 2


def test_vectors_are_methods_of_the_client_and_of_its_copies(hive: hivemem.Hive) -> None:
    copy = hive.with_options(message_id="m1")

    assert isinstance(hive.vectors, ServiceMethods)
    assert [published(of.vectors.store)[1].message_id for of in (hive, copy)] == [None, "m1"]
