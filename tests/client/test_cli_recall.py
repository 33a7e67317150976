"""`hivemem recall` and `hivemem vectors …` as a person at a terminal sees them."""

import pytest

import hivemem
from hivemem_contracts.vectors.models import Context, Turn
from hivemem_contracts.vectors.replies import StatusPage, SweepPage
from hivemem_testing.contract import Server

from .commands import in_a_terminal, invoke, invoke_json, on_screen
from .fleet import Fleet
from .test_recall import DEGRADED, FOUND, MOMENT, answer

LONG = FOUND.model_copy(update={"key": "notes", "text": None, "value": {"said": "word " * 100}, "score": 0.4})


def words_of(shown: str) -> list[list[str]]:
    """Return the words of each line that has any."""
    return [line.split() for line in shown.splitlines() if line.strip()]


async def test_what_is_found_is_a_table_of_score_place_and_text(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["vectors.recall"] = lambda _: hivemem.RecallAnswer(items=[FOUND, LONG])

    words = ("recall", "where does she sit", "--prefix", "user:alice", "--limit", "5")
    shown = await on_screen(shared_server.url, *words)
    piped = await invoke(shared_server.url, *words)

    assert fleet.asked[0].body == {"query": "where does she sit", "namespace_prefix": "user:alice", "limit": 5}
    head, _, first, text, second, value, *_ = words_of(shown)
    assert head == ["score", "namespace", "key"]
    assert (first, text) == (["0.610", "user:alice", "seat"], ["window"])
    assert (second, value[0]) == (["0.400", "user:alice", "notes"], '{"said":"word')
    assert "…" in shown
    assert "dense" not in shown
    assert [line.split("\t")[:4] for line in piped.stdout.splitlines()] == [
        ["0.61", "user:alice", "seat", "window"],
        ["0.4", "user:alice", "notes", ""],
    ]


async def test_explain_shows_what_a_score_is_made_of(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["vectors.recall"] = lambda _: answer()

    *_, parts, matched = (await on_screen(shared_server.url, "recall", "seat", "--explain")).splitlines()

    assert parts == "  dense 0.700  keyword 0.250  recency 1.000  importance 0.000  hints 1.000"
    assert matched == "  matched -"


async def test_explain_shows_the_score_of_the_reranker(shared_server: Server, fleet: Fleet) -> None:
    reranked = FOUND.model_copy(update={"scores": FOUND.scores.model_copy(update={"rerank": 0.61})})
    fleet.answers["vectors.recall"] = lambda _: hivemem.RecallAnswer(items=[reranked, LONG])

    assert "rerank 0.610" in (await on_screen(shared_server.url, "recall", "seat", "--explain"))


async def test_all_that_recall_takes_can_be_said(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["vectors.recall"] = lambda _: answer()

    await invoke(
        shared_server.url,
        *("recall", "seat", "--memory-type", "episodic", "--filter", '{"metadata": {"n": 1}}'),
        *("--weights", '{"recency": 0.5}', "--rerank", "--max-tokens", "50", "--min-version", "3", "--wait-ms", "100"),
    )

    assert fleet.asked[0].body == {
        "query": "seat",
        "limit": 10,
        "memory_type": "episodic",
        "filter": {"metadata": {"n": 1}},
        "weights": {"recency": 0.5},
        "rerank": True,
        "max_tokens": 50,
        "min_version": 3,
        "wait_ms": 100,
    }


async def test_a_dialogue_is_shown_with_its_neighbours(shared_server: Server, fleet: Fleet) -> None:
    def turn(key: str, sequence: int) -> Turn:
        return Turn(key=key, sequence=sequence, author="Ann", occurred_at=MOMENT, text=f"Ann: {key}")

    near = Context(before=[turn("e1", 1)], after=[turn("e3", 3)])
    event = FOUND.model_copy(update={"kind": "event", "namespace": "session:s1", "key": "e2", "context": near})
    fleet.answers["vectors.recall"] = lambda _: hivemem.RecallAnswer(items=[event])

    shown = await on_screen(
        shared_server.url,
        *("recall", "seat", "--user-id", "u", "--app-name", "a", "--project-id", "p"),
        *("--session-id", "s1", "--session-id", "s2"),
        *("--kind", "event", "--context", "1"),
    )

    asked = {"user_id": "u", "app_name": "a", "project_id": "p", "session_ids": ["s1", "s2"]}
    assert fleet.asked[0].body == {"query": "seat", "limit": 10, "kinds": ["event"], "context": 1, **asked}
    _, _, found, *text = words_of(shown)
    assert found == ["0.610", "session:s1", "e2"]
    assert text == [["e1", "Ann:", "e1"], ["e2", "window"], ["e3", "Ann:", "e3"]]


@pytest.mark.parametrize("json", [(), ("--json",)])
async def test_a_degraded_answer_is_said_on_standard_error(
    shared_server: Server, fleet: Fleet, json: tuple[str, ...]
) -> None:
    fleet.answers["vectors.recall"] = lambda _: answer(degraded=DEGRADED)

    result = await invoke(shared_server.url, "recall", "seat", *json)

    assert result.exit_code == 0
    assert result.stderr == "degraded (embedder, behind): the model is loading; 2 memories wait\n"
    assert "window" in result.stdout


async def test_json_is_the_answer_as_it_travels(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["vectors.recall"] = lambda _: answer()

    document = await invoke_json(shared_server.url, "recall", "seat")

    assert document["items"][0]["scores"] == FOUND.scores.model_dump()
    assert document["items"][0]["value"] == {"side": "window"}
    assert document["degraded"] is None


async def test_nothing_found_and_more_to_be_had_are_said(shared_server: Server, fleet: Fleet) -> None:
    answers = iter([hivemem.RecallAnswer(items=[]), answer(cut="tokens"), answer(cut="bytes")])
    fleet.answers["vectors.recall"] = lambda _: next(answers)

    shown = [await on_screen(shared_server.url, "recall", "seat") for _ in range(3)]

    assert shown[0] == "none\n"
    fleet.answers["vectors.recall"] = lambda _: answer(cursor="next")
    page = await invoke(shared_server.url, "recall", "window seat", "--cursor", "this")
    assert page.stdout.endswith(" recall 'window seat' --cursor next\n")
    assert shown[1].endswith("there is more: --max-tokens\n")
    assert shown[2].endswith("there is more: the answer reached its size limit\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("recall",), "query"),
        (("recall", "seat", "--limit", "101"), "--limit"),
        (("recall", "seat", "--memory-type", "vague"), "vague"),
        (("recall", "seat", "--filter", "{"), "not JSON"),
        (("recall", "seat", "--wait-ms", "-1"), "--wait-ms"),
    ],
)
async def test_a_wrong_command_line_is_exit_code_2(words: tuple[str, ...], told: str) -> None:
    result = await invoke("nats://127.0.0.1:1", *words)

    assert result.exit_code == 2
    assert told in result.stderr


async def test_what_the_service_would_refuse_is_an_error(shared_server: Server, fleet: Fleet) -> None:
    result = await invoke(shared_server.url, "recall", "seat", "--filter", '{"colour": "red"}')

    assert result.exit_code == 1
    assert "filter.colour: no such field" in result.stderr


async def test_a_sweep_is_summed_up(shared_server: Server, fleet: Fleet) -> None:
    whole = SweepPage(checked=1, missing=0, left_over=0, cursor=None)
    broken = SweepPage(checked=1_200, missing=3, left_over=1, cursor=None)
    answers = iter([whole, broken, broken, broken])
    fleet.answers["vectors.sweep"] = lambda _: next(answers)

    clean = await invoke(shared_server.url, "vectors", "sweep")
    repaired = await invoke(shared_server.url, "vectors", "sweep")
    counted = await invoke(shared_server.url, "vectors", "sweep", "--dry-run")
    document = await invoke_json(shared_server.url, "vectors", "sweep", "--dry-run")

    assert clean.stdout == "compared 1 memory: 0 missing, 0 left over\n"
    assert repaired.stdout == "compared 1,200 memories: 3 missing, 1 left over; repaired\n"
    assert counted.stdout == "compared 1,200 memories: 3 missing, 1 left over\n"
    assert document == {"checked": 1_200, "missing": 3, "left_over": 1, "dry_run": True}
    assert repaired.stderr == ""


async def test_a_sweep_shows_how_far_it_is_in_a_terminal(shared_server: Server, fleet: Fleet) -> None:
    parts = iter([SweepPage(checked=100, missing=2, left_over=0, cursor=cursor) for cursor in ("a", "b", None)])
    fleet.answers["vectors.sweep"] = lambda _: next(parts)

    shown = await in_a_terminal(shared_server.url, "vectors", "sweep")

    assert "compared 300 memories: 6 missing, 0 left over; repaired" in shown


async def test_statuses_are_a_table(shared_server: Server, fleet: Fleet) -> None:
    status = hivemem.IndexStatus(
        namespace="user:alice",
        key="seat",
        version=2,
        indexed_version=1,
        state="stale",
        error="the embedder is down",
        attempts=3,
        updated_at=MOMENT,
    )
    fleet.answers["vectors.status"] = lambda _: StatusPage(items=[status], cursor="next")

    shown = await on_screen(shared_server.url, "vectors", "status", "--state", "stale", "--namespace", "user:alice")

    assert fleet.asked[0].body == {"state": "stale", "namespace": "user:alice"}
    assert "the embedder is down" in shown
    assert "vectors status --state stale --namespace user:alice --cursor next" in shown


async def test_vectors_of_ones_own_are_stored_by_their_places(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["vectors.store"] = lambda _: b'{"id": "a", "collection": "default", "version": 1, "duplicate": false}'
    fleet.answers["vectors.query"] = lambda _: b'{"items": [{"id": "a", "score": 1.0, "metadata": {"n": 1}}]}'

    await invoke(shared_server.url, "vectors", "store", "a", "[1.0, 0.5]", "--metadata", '{"n": 1}')
    near = await invoke(shared_server.url, "vectors", "query", "[1, 0.5]", "--top-k", "3")

    store, query = fleet.asked
    assert store.body == {"id": "a", "embedding": [1.0, 0.5], "metadata": {"n": 1}}
    assert query.body == {"embedding": [1.0, 0.5], "top_k": 3}
    assert '{"n":1}' in near.stdout
