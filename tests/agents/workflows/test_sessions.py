"""Runs of a session: its state is the run's, and each result is one of its events."""

import pytest

from hivemem_testing.agent import Body

from .conftest import Runner, SessionsBot

pytestmark = pytest.mark.asyncio(loop_scope="session")

STEPS = (
    {"id": "count", "save": "n", "next": [{"when": "state.n < 2", "to": "count"}]},
    {"id": "ok", "wait": {"signal": "approved"}, "save": "ok"},
    {"id": "pay", "when": "state.ok && state.limit == 5"},
)


async def with_session(runner: Runner, sessions: SessionsBot) -> Body:
    await sessions.ask("create", session_id="s1", app_name="shop", user_id="ann", initial_state={"limit": 5})
    return await runner.started(*STEPS, session_id="s1")


async def test_results_are_events_and_decisions_read_the_state(runner: Runner, sessions: SessionsBot) -> None:
    run = await with_session(runner, sessions)
    assert run["state"] == {"limit": 5}
    first = await runner.claim()
    assert first["state"] == {"limit": 5}
    second = (await runner.report(first, 1, claim_next=True))["next"]
    assert (second["step"], second["state"]) == ("count", {"limit": 5, "n": 1})
    await runner.report(second, 2)
    await runner.ask("run_signal", run_id="r1", name="approved", data=True)
    claimed = await runner.claim()
    once = await runner.report(claimed, {"paid": 5})
    again = await runner.report(claimed, {"paid": 5})
    assert (once["run_status"], again["duplicate"]) == ("completed", True)
    events = await sessions.events()
    assert [(event["type"], event["content"]) for event in events] == [
        ("count", 1),
        ("count", 2),
        ("ok", True),
        ("pay", {"paid": 5}),
    ]
    assert events[0]["metadata"] == {"workflow": "order", "run_id": "r1", "step": "count", "attempt": 1}
    assert (await runner.run())["state"] == {"limit": 5, "n": 2, "ok": True}


async def test_a_deleted_or_terminated_session_fails_the_run_by_name(runner: Runner, sessions: SessionsBot) -> None:
    refused = await runner.refusal("run_start", name="order", session_id="s1")
    assert refused.code == 40401
    await with_session(runner, sessions)
    claimed = await runner.claim()
    await sessions.ask("terminate", session_id="s1")
    reported = await runner.report(claimed, 1)
    assert reported["run_status"] == "failed"
    error = (await runner.run())["error"]["error"]
    assert error["name"] == "IllegalTransition"
    assert "'s1'" in error["detail"]
    assert (await runner.refusal("run_start", name="order", session_id="s1")).code == 40903
    await sessions.ask("create", session_id="s2", app_name="shop", user_id="ann")
    await runner.ask("run_start", name="order", run_id="r2", session_id="s2")
    claimed = await runner.claim()
    await sessions.ask("delete", session_id="s2")
    await runner.report(claimed, 1)
    assert (await runner.run("r2"))["error"]["error"]["name"] == "NotFound"
