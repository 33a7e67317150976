"""Runs of a session whose processes and workers are killed: the session gets the events of an undisturbed run."""

from collections.abc import Callable
from typing import Any

import pytest

from hivemem_agents.workflows.endpoints.run_sessions import RunSessions
from hivemem_contracts.errors import Unavailable
from hivemem_testing.agent import Body, Refused

from .conftest import Runner, SessionsBot

pytestmark = pytest.mark.asyncio(loop_scope="session")

STEPS = (
    {"id": "a", "save": "n", "next": [{"when": "state.n < 2", "to": "a"}]},
    {"id": "b", "wait": {"signal": "go"}, "save": "go"},
    {"id": "c", "compensate": "undo-c"},
    {"id": "d"},
)
EVENTS = [("a", 1), ("a", 2), ("b", "now"), ("c", 3), ("d.failed", "no"), ("c.compensated", 5)]
TASKS = 5


async def begun(runner: Runner, sessions: SessionsBot) -> None:
    await sessions.ask("create", session_id="s1", app_name="shop", user_id="ann")
    await runner.started(*STEPS, session_id="s1")
    await runner.ask("run_signal", run_id="r1", name="go", data="now")


async def reported(runner: Runner, claimed: Body, number: int) -> None:
    """Report the result of a task; the fourth one fails."""
    result: dict[str, Any] = {"error": "no"} if number == 4 else {"output": number}
    named = {name: claimed[name] for name in ("run_id", "step", "attempt", "token")}
    await runner.ask("step_report", {**named, **result})


async def events_of(sessions: SessionsBot) -> list[tuple[str, Any]]:
    return [(event["type"], event["content"]) for event in await sessions.events()]


async def test_a_process_killed_at_each_of_its_steps(runner: Runner, sessions: SessionsBot) -> None:
    await begun(runner, sessions)
    for number in range(1, TASKS + 1):
        await runner.claim(wait_ms=10_000, lease=100)  # it is killed here
        claimed = await runner.claim(wait_ms=10_000)
        assert claimed["attempt"] == 2
        await reported(runner, claimed, number)
    assert (await runner.comes_to("compensated"))["error"] == {"step": "d", "error": "no"}
    assert await events_of(sessions) == EVENTS


@pytest.mark.parametrize("appended", [False, True])
async def test_a_worker_killed_at_each_of_its_commits(
    runner: Runner, sessions: SessionsBot, monkeypatch: pytest.MonkeyPatch, appended: bool
) -> None:
    """A worker that ends after the first commit, or after the append, leaves what this one finds."""
    append: Callable[..., Any] = RunSessions.append
    killed: set[int] = set()

    async def interrupted(self: RunSessions, tenant: str, facts: Any, plan: Any, step: Any) -> Any:
        if tenant == runner.tenant and step.number not in killed:
            killed.add(step.number)
            if appended:
                await append(self, tenant, facts, plan, step)
            raise Unavailable("the worker is killed", retry_after_ms=1)
        return await append(self, tenant, facts, plan, step)

    monkeypatch.setattr(RunSessions, "append", interrupted)
    await begun(runner, sessions)
    for number in range(1, TASKS + 1):
        claimed = await runner.claim(wait_ms=20_000)
        with pytest.raises(Refused, match="killed"):
            await reported(runner, claimed, number)
        if number != 2:  # there, the signal is left for the worker's clock as well
            await reported(runner, claimed, number)
    await runner.comes_to("compensated")
    assert await events_of(sessions) == EVENTS
    assert len(killed) == len(EVENTS)
