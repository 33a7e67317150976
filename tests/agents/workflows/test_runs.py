"""Runs: steps in order, branches, loops, parallel branches, waits, retries and compensation."""

import asyncio
from typing import Any

import pytest

from hivemem_agents.workflows.reactions import change_waits
from hivemem_testing.agent import Body
from hivemem_testing.waiting import eventually

from .conftest import Fleet, Runner

pytestmark = pytest.mark.asyncio(loop_scope="session")


def shown(run: Body) -> list[tuple[str, str]]:
    return [(step["id"], step["status"]) for step in run["steps"]]


async def test_a_run_takes_its_steps_in_order_and_saves_their_outputs(runner: Runner) -> None:
    run = await runner.started({"id": "reserve", "save": "stock"}, {"id": "pay", "run": "charge"}, input={"sku": 7})
    assert (run["status"], run["version"], shown(run)) == ("running", 1, [("reserve", "pending")])

    first = await runner.claim()
    assert (first["step"], first["attempt"], first["input"], first["state"]) == ("reserve", 1, {"sku": 7}, {})
    reported = await runner.report(first, {"left": 2}, claim_next=True)
    assert (reported["status"], reported["run_status"]) == ("completed", "running")
    second = reported["next"]
    assert (second["step"], second["name"], second["state"]) == ("pay", "charge", {"stock": {"left": 2}})
    assert (await runner.claim())["token"] is None
    await runner.report(second)

    run = await runner.run()
    assert (run["status"], shown(run)) == ("completed", [("reserve", "completed"), ("pay", "completed")])
    assert [told.what for told in await runner.feed("run.>")] == ["run.started", "run.completed"]


async def test_requests_to_the_service_workflows_reach_the_same_operations(runner: Runner) -> None:
    other = Runner(runner.client, runner.worker, runner.tenant)
    other.__class__ = type("Aliased", (Runner,), {"SERVICE": "workflows"})
    await other.started({"id": "a"})
    assert (await runner.run())["name"] == "order"


async def test_a_report_counts_once_and_for_the_attempt_that_has_the_step(runner: Runner) -> None:
    await runner.started({"id": "a", "retry": {"attempts": 2, "delay_seconds": 0}})
    lost = await runner.claim(lease=100)
    taken = await runner.claim(wait_ms=5_000)
    assert (taken["attempt"], taken["token"] > lost["token"]) == (2, True)
    refused = await runner.refusal("step_report", {n: lost[n] for n in ("run_id", "step", "attempt", "token")})
    assert (refused.code, refused.context["token"]) == (40904, taken["token"])
    first = await runner.report(taken, "x")
    again = await runner.report(taken, "y")
    assert (first["duplicate"], again["duplicate"], again["status"]) == (False, True, "completed")
    assert (await runner.run())["steps"][0]["output"] == "x"


async def test_a_claim_is_repeated_under_its_message_id(runner: Runner) -> None:
    await runner.started({"id": "a"})
    await runner.ask("run_start", name="order", run_id="r2")
    claim = {"name": "order", "limit": 2}
    first = await runner.ask("step_claim", claim, id="one")
    again = await runner.ask("step_claim", claim, id="one")
    assert [item["run_id"] for item in first["items"]] == ["r1", "r2"]
    assert (again["items"], again["duplicate"]) == (first["items"], True)


async def test_branches_and_loops_follow_the_state(runner: Runner) -> None:
    await runner.started(
        {"id": "count", "save": "n", "next": [{"when": "state.n < 3", "to": "count"}]},
        {"id": "never", "when": "state.n > 100"},
        {"id": "choose", "next": [{"when": "output == 'b'", "to": "b"}, {"to": "a"}]},
        {"id": "a", "next": [{"to": "end"}]},
        {"id": "b"},
    )
    for number in (1, 2, 3):
        assert await runner.done(number) == "count"
    assert await runner.done("b") == "choose"
    assert await runner.done() == "b"
    run = await runner.run()
    assert run["status"] == "completed"
    assert shown(run)[3:] == [("never", "skipped"), ("choose", "completed"), ("b", "completed")]
    assert [step["visit"] for step in run["steps"][:3]] == [1, 2, 3]


async def test_a_step_that_is_visited_too_often_fails_the_run(runner: Runner) -> None:
    await runner.started({"id": "a", "max_visits": 2, "next": [{"to": "a"}]})
    await runner.done()
    await runner.done()
    run = await runner.run()
    assert (run["status"], run["error"]["error"]["name"]) == ("failed", "StepLimit")


@pytest.mark.parametrize(("join", "then"), [("all", "b2"), ("any", "last")])
async def test_parallel_branches_are_joined(runner: Runner, join: str, then: str) -> None:
    branches = [[{"id": "a1"}], [{"id": "b1"}, {"id": "b2"}]]
    await runner.started({"id": "both", "parallel": branches, "join": join, "save": "won"}, {"id": "last"})
    claimed = await runner.claim(limit=5)
    assert [item["step"] for item in claimed["items"]] == ["a1", "b1"]
    await runner.report(claimed["items"][0])
    if join == "any":
        refused = await runner.refusal(
            "step_report", {n: claimed["items"][1][n] for n in ("run_id", "step", "attempt", "token")}
        )
        assert refused.code == 40903
    else:
        await runner.report(claimed["items"][1])
    assert await runner.done() == then
    if join == "all":
        assert await runner.done() == "last"
    run = await runner.run()
    assert (run["status"], run["state"]) == ("completed", {"won": {"branch": 0} if join == "any" else None})


async def test_signals_are_kept_until_a_step_waits_for_them(runner: Runner) -> None:
    await runner.started(
        {"id": "a"},
        {"id": "ok", "wait": {"signal": "approved"}, "save": "ok", "next": [{"when": "!signal.yes", "to": "end"}]},
        {"id": "b", "wait": {"signal": "go"}},
    )
    await runner.ask("run_signal", run_id="r1", name="approved", data={"yes": True})
    await runner.done()
    run = await runner.run()
    assert (run["status"], run["state"]) == ("waiting", {"ok": {"yes": True}})
    ended = await runner.ask("run_signal", run_id="r1", name="go")
    assert (ended["status"], ended["duplicate"]) == ("completed", False)
    assert (await runner.refusal("run_signal", run_id="r1", name="go")).code == 40903
    told = [told.what for told in await runner.feed("run.>")]
    assert told == ["run.started", "run.waiting", "run.completed"]


async def test_timers_and_time_limits_go_on_by_themselves(runner: Runner) -> None:
    await runner.started(
        {"id": "pause", "sleep_seconds": 0.05},
        {"id": "late", "wait": {"signal": "x", "timeout_seconds": 0.05, "on_timeout": "slow"}},
        {"id": "never"},
        {"id": "slow", "timeout_seconds": 0.1, "retry": {"attempts": 2, "delay_seconds": 0}},
        {"id": "out", "wait": {"signal": "x", "timeout_seconds": 0.05}},
    )
    first = await runner.claim(wait_ms=10_000)
    second = await runner.claim(wait_ms=10_000)
    assert (first["step"], second["step"], second["attempt"]) == ("slow", "slow", 2)
    assert (await runner.refusal("step_renew", {n: first[n] for n in ("run_id", "step", "attempt", "token")})).code == (
        40904
    )
    await runner.report(second)
    run = await runner.comes_to("failed")
    assert run["error"]["error"]["name"] == "WaitTimedOut"
    assert [step["id"] for step in run["steps"]] == ["pause", "late", "slow", "out"]


async def test_a_wait_ends_with_the_change_that_it_waits_for(runner: Runner) -> None:
    waits: list[dict[str, Any]] = [
        {"id": "seen", "wait": {"change": ["workflow", "other"], "when": "change.value.steps == 2"}, "save": "seen"}
    ]
    await runner.started(*waits)
    await runner.defined({"id": "x"}, name="other")
    await runner.defined({"id": "x"}, {"id": "y"}, name="another")
    assert await runner.status() == "waiting"
    # A forged message is passed over.
    await runner.client.publish(f"hive.chg.{runner.tenant}.workflow.other", b"{}" * 100_000)
    await runner.defined({"id": "x"}, {"id": "y"}, name="other")
    run = await runner.comes_to("completed")
    assert run["state"]["seen"]["version"] == 2


async def test_the_waits_of_a_tenant_leave_time_for_others(
    fleet: Fleet, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_waits, "TURN_SECONDS", 1e-9)
    await runner.defined({"id": "seen", "wait": {"change": ["workflow"], "when": "false"}})
    for number in range(5):
        await runner.ask("run_start", name="order", run_id=f"r{number}")
    other = fleet.runner()
    await other.started({"id": "seen", "wait": {"change": ["workflow", "other"]}})
    for bystander in (runner, other):
        await bystander.defined({"id": "x"}, name="other")
    await other.comes_to("completed")


async def test_a_claim_finds_its_handler_behind_many_others(runner: Runner) -> None:
    await runner.started({"id": "p", "parallel": [[{"id": f"s{number}", "run": "a"}] for number in range(32)]})
    await runner.ask("run_start", name="order", run_id="r2")
    await runner.defined({"id": "last"}, name="order")
    await runner.ask("run_start", name="order", run_id="r3")
    claimed = await runner.claim(handlers=["last"])
    assert (claimed["run_id"], claimed["step"]) == ("r3", "last")


async def test_a_run_that_fails_is_compensated_in_reverse(runner: Runner) -> None:
    await runner.started(
        {"id": "a", "compensate": "undo-a"}, {"id": "b", "compensate": "undo-b"}, {"id": "c", "compensate": "undo-c"}
    )
    await runner.done("A")
    await runner.done("B")
    failing = await runner.report(await runner.claim(), error="no")
    assert (failing["status"], failing["run_status"]) == ("failed", "running")
    undone: list[tuple[str, str, Any]] = []
    for _ in range(2):
        claimed = await runner.claim()
        undone.append((claimed["name"], claimed["kind"], claimed["output"]))
        await runner.report(claimed)
    assert undone == [("undo-b", "compensation", "B"), ("undo-a", "compensation", "A")]
    run = await runner.run()
    assert (run["status"], run["error"]) == ("compensated", {"step": "c", "error": "no"})
    again = await runner.ask("run_retry", run_id="r1")
    assert (again["status"], again["steps"][-1]["id"]) == ("running", "a")


async def test_a_failed_step_is_tried_again_and_the_run_can_be_retried(runner: Runner) -> None:
    await runner.started({"id": "a"}, {"id": "b", "retry": {"attempts": 2, "delay_seconds": 0.01}})
    await runner.done()
    first = await runner.report(await runner.claim(), error="once")
    assert (first["status"], first["run_status"]) == ("pending", "running")
    second = await runner.report(await runner.claim(wait_ms=10_000), error={"code": 2})
    assert (second["status"], second["run_status"]) == ("failed", "failed")
    refused = await runner.refusal("run_retry", run_id="r1", step="bb")
    assert (refused.code, refused.context["field"]) == (40001, "step")
    run = await runner.ask("run_retry", run_id="r1")
    assert (run["status"], run["error"], run["steps"][-1]["id"]) == ("running", None, "b")
    await runner.done()
    assert await runner.status() == "completed"
    assert (await runner.refusal("run_retry", run_id="r1")).code == 40903


async def test_a_cancelled_run_refuses_what_its_steps_report(runner: Runner) -> None:
    await runner.started({"id": "a"})
    claimed = await runner.claim()
    assert (await runner.ask("run_cancel", run_id="r1"))["status"] == "cancelled"
    assert (await runner.ask("run_cancel", run_id="r1"))["status"] == "cancelled"
    named = {name: claimed[name] for name in ("run_id", "step", "attempt", "token")}
    for operation in ("step_report", "step_renew"):
        refused = await runner.refusal(operation, named)
        assert (refused.code, refused.context["status"]) == (40903, "cancelled")
    empty = await runner.claim(run_id="r1", wait_ms=10_000)
    assert (empty["items"], empty["run_status"]) == ([], "cancelled")


async def test_a_side_effect_is_recorded_once_for_all_attempts(runner: Runner) -> None:
    await runner.started({"id": "a"})
    assert (
        await runner.refusal("step_once", run_id="r1", step="a", token=1_000_001, key="mail", result="forged")
    ).code == (40401)
    lost = await runner.claim(lease=100)
    named = {name: lost[name] for name in ("run_id", "step", "token")}
    assert (await runner.ask("step_once", named, key="mail"))["recorded"] is False
    await runner.ask("step_once", named, key="mail", result=None)
    taken = await runner.claim(wait_ms=10_000)
    named["token"] = taken["token"]
    kept = await runner.ask("step_once", named, key="mail", result="another")
    assert (kept["recorded"], kept["result"]) == (True, None)


async def test_a_run_keeps_its_version_and_runs_are_listed(runner: Runner) -> None:
    await runner.started({"id": "a"})
    assert (await runner.defined({"id": "a"}))["version"] == 1
    await runner.defined({"id": "a"}, {"id": "b"})
    await runner.ask("run_start", name="order", run_id="r2")
    for run_id in ("r1", "r2"):
        assert await runner.done(run_id=run_id) == "a"
    assert [(run["run_id"], run["version"], run["status"]) for run in (await runner.ask("runs"))["items"]] == [
        ("r2", 2, "running"),
        ("r1", 1, "completed"),
    ]
    page = await runner.ask("runs", name="order", status="completed")
    assert [run["run_id"] for run in page["items"]] == ["r1"]
    assert len((await runner.ask("workflow_get", name="order", version=1))["definition"]["steps"]) == 1


async def test_the_steps_of_a_long_run_are_read_in_pages(runner: Runner) -> None:
    await runner.started({"id": "a", "next": [{"when": "output < 7", "to": "a"}]})
    for number in range(1, 8):
        await runner.done(number)
    newest = await runner.run(limit=3)
    before = await runner.run(limit=100, cursor=newest["cursor"])
    assert [step["number"] for step in newest["steps"]] == [5, 6, 7]
    assert ([step["number"] for step in before["steps"]], before["cursor"]) == ([1, 2, 3, 4], None)


async def test_many_claims_get_each_step_once_and_wait_for_more(runner: Runner) -> None:
    await runner.defined({"id": "a"})
    waiting = [asyncio.create_task(runner.called(f"p{n}").claim(wait_ms=20_000, limit=n % 3 + 1)) for n in range(20)]
    await asyncio.gather(*(runner.ask("run_start", name="order", run_id=f"r{n}") for n in range(40)))
    found = [item["run_id"] for task in waiting for item in (await task)["items"]]
    assert (len(set(found)), len(found)) == (len(found), len(found))

    async def all_taken() -> bool:
        found.extend(item["run_id"] for item in (await runner.claim(limit=10))["items"])
        return len(found) == 40

    await eventually(all_taken, "all steps are claimed")
    assert len(set(found)) == 40
