"""State machines: stored ones and a session's own, which events they allow, and which they refuse."""

import pytest

from hivemem_contracts.limits import EXPRESSION_BYTES

from .hive import Agent, Body

pytestmark = pytest.mark.asyncio(loop_scope="session")

REVIEW: Body = {
    "initial": "draft",
    "states": ["draft", "review", "done"],
    "transitions": [
        {"from": "draft", "event": "submit", "to": "review", "when": "state.words >= 100 && event.author != 'robot'"},
        {"from": "draft", "event": "submit", "to": "done", "when": "state.trivial"},
        {"from": "review", "event": "reject", "to": "draft"},
        {"from": "review", "event": "accept", "to": "done", "when": "event.content.score > 0.5"},
    ],
}
FULL: Body = {**REVIEW, "open": False, "transitions": [{"when": None, **arrow} for arrow in REVIEW["transitions"]]}


async def test_events_move_the_machine_of_their_session(bot: Agent) -> None:
    made = await bot.create("s1", machine=REVIEW, initial_state={"words": 120})
    assert made["machine"] == {"name": None, "version": None, "state": "draft", "allowed": ["submit"]}
    await bot.append("s1", "submit")
    assert (await bot.session("s1"))["machine"]["allowed"] == ["accept", "reject"]
    await bot.append("s1", "accept", content={"score": 0.9})
    assert (await bot.session("s1"))["machine"] == {"name": None, "version": None, "state": "done", "allowed": []}
    states = [(await bot.session("s1", revision=revision))["machine"]["state"] for revision in (1, 2, 3)]
    assert states == ["draft", "review", "done"]


async def test_what_is_not_allowed_is_refused_with_what_is(bot: Agent) -> None:
    await bot.create("s1", machine=REVIEW, initial_state={"words": 5})
    refused = await bot.refusal("append", session_id="s1", event={"type": "accept"}, state_delta={"user:x": 1})
    assert (refused.code, refused.context) == (
        40903,
        {"state": "draft", "event": "accept", "allowed": ["submit"], "guards": []},
    )
    refused = await bot.refusal("append", session_id="s1", event={"type": "submit"})
    assert refused.code == 40903
    assert refused.context["guards"] == [arrow["when"] for arrow in REVIEW["transitions"][:2]]
    session = await bot.session("s1")
    assert (session["revision"], session["state"], session["status"]) == (1, {"words": 5}, "created")


async def test_the_first_guard_that_holds_decides(bot: Agent) -> None:
    await bot.create("s1", machine=REVIEW, initial_state={"words": 120, "trivial": True})
    await bot.append("s1", "submit")
    assert (await bot.session("s1"))["machine"]["state"] == "review"
    await bot.create("s2", machine=REVIEW, initial_state={"words": 120, "trivial": True})
    await bot.append("s2", "submit", author="robot")
    assert (await bot.session("s2"))["machine"]["state"] == "done"


@pytest.mark.parametrize("words", [None, "many", [], {}, 5, -1.5, True])
async def test_a_guard_that_cannot_be_evaluated_does_not_hold(bot: Agent, words: object) -> None:
    await bot.create("s1", machine=REVIEW, initial_state={} if words is None else {"words": words, "trivial": "yes"})
    assert (await bot.refusal("append", session_id="s1", event={"type": "submit"})).code == 40903


async def test_an_open_machine_lets_other_events_pass(bot: Agent) -> None:
    await bot.create("s1", machine={**REVIEW, "open": True}, initial_state={"words": 120})
    await bot.append("s1", "chat")
    assert (await bot.session("s1"))["machine"]["state"] == "draft"
    assert (await bot.refusal("append", session_id="s1", event={"type": "reject"})).code == 40903


async def test_a_stored_machine_has_versions(bot: Agent) -> None:
    first = await bot.ask("machine_put", name="review", definition=REVIEW, expect_version=0)
    assert first.pop("created_at")
    assert (first.pop("duplicate"), first.pop("unreachable")) == (False, [])
    assert first == {"name": "review", "version": 1, "definition": FULL, "created_by": "bot"}
    await bot.create("old", machine="review", initial_state={"words": 120})
    changed = {**REVIEW, "initial": "review"}
    assert (await bot.ask("machine_put", name="review", definition=changed, expect_version=1))["version"] == 2
    made = await bot.create("new", machine="review")
    assert made["machine"] == {"name": "review", "version": 2, "state": "review", "allowed": ["accept", "reject"]}
    assert (await bot.session("old"))["machine"]["version"] == 1
    await bot.append("old", "submit")
    assert (await bot.ask("machine_get", name="review"))["version"] == 2
    older = await bot.ask("machine_get", name="review", version=1)
    assert older["definition"] == FULL
    refused = await bot.refusal("machine_put", name="review", definition=REVIEW, expect_version=1)
    assert (refused.code, refused.context) == (40902, {"expected": 1, "actual": 2})


async def test_the_same_put_again_is_one_version(bot: Agent) -> None:
    first = await bot.ask("machine_put", id="m1", name="m", definition=REVIEW)
    assert await bot.ask("machine_put", id="m1", name="m", definition=REVIEW) == {**first, "duplicate": True}
    assert (await bot.ask("machine_get", name="m"))["version"] == 1


async def test_what_is_not_there_is_not_found(bot: Agent) -> None:
    await bot.ask("machine_put", name="m", definition=REVIEW)
    missing: tuple[Body, ...] = ({"name": "nothing"}, {"name": "m", "version": 2})
    for fields in missing:
        refused = await bot.refusal("machine_get", fields)
        assert (refused.code, refused.context) == (40401, {"machine": fields["name"]})
    refused = await bot.refusal("create", app_name="a", user_id="u", machine="nothing")
    assert (refused.code, refused.context) == (40401, {"machine": "nothing"})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"initial": "nowhere"}, "initial"),
        ({"transitions": [{"from": "nowhere", "event": "e", "to": "done"}]}, "transitions.0.from"),
        ({"transitions": [{"from": "draft", "event": "e", "to": "nowhere"}]}, "transitions.0.to"),
        ({"transitions": [{"from": "draft", "event": "e", "to": "done", "when": "1 +"}]}, "transitions.0.when"),
        ({"transitions": [{"from": "draft", "event": "e", "to": "done", "when": "unknown"}]}, "transitions.0.when"),
        ({"states": []}, "states"),
    ],
)
async def test_a_definition_that_makes_no_sense_is_refused_by_its_place(bot: Agent, change: Body, field: str) -> None:
    refused = await bot.refusal("machine_put", name="m", definition=REVIEW | change)
    assert (refused.code, refused.context["field"]) == (40001, f"definition.{field}")
    refused = await bot.refusal("create", app_name="a", user_id="u", machine=REVIEW | change)
    assert (refused.code, refused.context["field"]) == (40001, f"machine.{field}")


async def test_a_definition_over_its_limit_is_too_large(bot: Agent) -> None:
    states = [f"{n:04}" + "x" * 250 for n in range(140)]
    refused = await bot.refusal(
        "machine_put", name="m", definition={"initial": states[0], "states": states, "transitions": []}
    )
    assert (refused.code, refused.context["limit"]) == (41301, 32_768)


async def test_machines_tell_nothing_and_hold_nothing_up(bot: Agent) -> None:
    await bot.ask("machine_put", name="m", definition=REVIEW)
    await bot.create("s1")
    assert await bot.told() == [("session.created", 1)]


EXPLODES = "state.l.map(x, state.s + state.s + state.s).size() > 0"


async def session_that_explodes(bot: Agent) -> None:
    machine = {
        "initial": "a",
        "states": ["a"],
        "transitions": [{"from": "a", "event": "go", "to": "a", "when": EXPLODES}],
    }
    await bot.create("s1", machine=machine, initial_state={"l": list(range(9_000)), "s": "x" * 250_000})


async def test_an_event_whose_guard_is_over_its_budget_is_refused(bot: Agent) -> None:
    await session_that_explodes(bot)
    refused = await bot.refusal("append", session_id="s1", event={"type": "go"})
    assert refused.code == 41301
    assert refused.context["limit"] == EXPRESSION_BYTES
    assert (refused.context["from"], refused.context["event"], refused.context["when"]) == ("a", "go", EXPLODES)
    assert (await bot.session("s1"))["revision"] == 1


async def test_a_command_whose_guard_is_over_its_budget_is_a_dead_letter(bot: Agent) -> None:
    await session_that_explodes(bot)
    body = {"session_id": "s1", "event": {"type": "go"}}
    await bot.command("append", "s1", body, id=bot.id("go"))
    await bot.command("state_set", "s1", {"session_id": "s1", "key": "k", "value": 1})
    [letter] = await bot.letters(1)
    assert letter.headers["Nats-Service-Error-Code"] == "41301"
    assert (await bot.feed_of(2))[-1].what == "session.state_changed"
