"""The runner against all workers: its checks, its context, the log of its steps, and their cycles."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, cast

import pytest

import hivemem
from hivemem import runner_services, runner_step
from hivemem.runner import Runner
from hivemem.runner_context import ContextBuilder, estimated_tokens
from hivemem_contracts.vectors.replies import StatusPage
from hivemem_testing.contract import Server
from hivemem_testing.ports import free_port

from .fleet import Fleet


@pytest.fixture
async def real(url: str) -> AsyncIterator[hivemem.Hive]:
    """A client of all workers, with a tenant of its own."""
    async with hivemem.connect(url, tenant=hivemem.new_id(), agent="bot") as hive:
        yield hive


def runner_of(hive: hivemem.Hive, **options: Any) -> Runner:
    given: dict[str, Any] = {"app_name": "demo", "user_id": "ann", **options}
    return Runner.of(hive, **given)


async def log_of(runner: Runner) -> list[tuple[str, dict[str, Any]]]:
    return [(event.type, cast("dict[str, Any]", event.content)) for event in await runner.events()]


def test_a_runner_names_every_service_that_is_missing_or_another_one() -> None:
    hive = hivemem.Hive()
    given: Any = {"sessions": hive.sessions, "vectors": None, "memory": hive.sessions, "artifacts": hive.artifacts}
    with pytest.raises(hivemem.InvalidRequest) as refused:
        Runner(**given, session_id="s1")
    assert refused.value.context["services"] == ["vectors", "memory"]
    with pytest.raises(hivemem.InvalidRequest, match=r"^agents: "):
        Runner(**(given | {"vectors": hive.vectors, "memory": hive.memory}), session_id="s1", agent_id="scout")
    with pytest.raises(hivemem.InvalidRequest, match=r"^session_id: "):
        Runner.of(hive, user_id="ann")
    with pytest.raises(hivemem.InvalidRequest, match=r"^namespace: .*'ann'$"):
        Runner.of(hive, session_id="s1", namespace="ann")


async def test_a_runner_starts_with_all_of_its_services_or_names_those_that_do_not_answer(
    real: hivemem.Hive, shared_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_services, "CHECK_SECONDS", 0.3)
    nowhere = hivemem.Hive(f"nats://127.0.0.1:{free_port()}")
    async with hivemem.connect(shared_server.url, tenant="nobody") as without_workers, nowhere:
        runner = Runner(
            sessions=real.sessions,
            vectors=nowhere.vectors,
            memory=without_workers.memory,
            artifacts=real.artifacts,
            session_id="s1",
        )
        with pytest.raises(hivemem.Unavailable) as refused:
            await runner.__aenter__()
    assert refused.value.context["services"] == ["vectors", "memory"]
    assert "memory: " in str(refused.value)


async def test_a_step_gets_its_context_and_is_logged_with_what_it_got(
    real: hivemem.Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_step, "RETRIEVAL_SECONDS", 60.0)
    async with runner_of(real, agent_id="scout") as runner:
        put = await runner.remember("Ann is allergic to nuts.", key="diet", importance=0.9)
        await runner.save_state({"city": "Rome", "mood": None})
        await runner.recall("food", wait_ms=10_000)

        @runner.step("answer", max_tokens=60)
        async def answer(step: hivemem.RunnerStep, question: str, *, now: datetime) -> str:
            assert [memory.key for memory in step.context.memories] == ["diet"]
            assert step.context.state == {"city": "Rome"}
            assert [event.type for event in step.context.events] == ["state.saved"]
            assert 0 < step.context.tokens == estimated_tokens(step.context.text) <= 60
            await runner.remember("She asked about food.", key="asked")
            await runner.save_artifact("menu.txt", b"no nuts")
            async with runner.step("look up", inputs="part of the first") as part:
                part.output = 1
            return "no nuts"

        assert await answer("what may Ann eat", now=datetime(2026, 1, 31, tzinfo=UTC)) == "no nuts"
        _, started, saved, inner, inner_end, end = await runner.events()
        assert (started.type, inner_end.type, end.type) == ("step.started", "step.completed", "step.completed")
        assert [event.parent_id for event in (started, saved, inner, inner_end, end)] == [
            None,
            started.event_id,
            started.event_id,
            inner.event_id,
            started.event_id,
        ]
        content = cast("dict[str, Any]", started.content)
        assert content["input"] == {"question": "what may Ann eat", "now": "2026-01-31T00:00:00.000000Z"}
        (retrieved,) = content["retrieved"]["memories"]
        assert (retrieved["key"], retrieved["version"], retrieved["score"] > 0) == ("diet", put.version, True)
        assert (content["retrieved"]["state"], content["retrieved"]["events"]) == (["city"], {"first": 1, "last": 1})
        assert cast("dict[str, Any]", end.content)["output"] == "no nuts"
        source = (await real.memory.get(namespace="user:ann", key="asked")).source
        assert source == hivemem.Source(
            session_id=runner.session_id, event_id=started.event_id, agent_id="scout", cycle=1
        )
        (cycle,) = (await real.agents.cycles(agent_id="scout")).items
        assert (cycle.status, cycle.session_id) == ("completed", runner.session_id)
        assert cycle.result is not None
        assert (cycle.result.output, len(cycle.result.artifacts or [])) == ("no nuts", 1)
        assert await real.artifacts.read((cycle.result.artifacts or [""])[0]) == b"no nuts"


async def test_failing_and_cancelled_steps_are_logged_and_their_errors_raised(real: hivemem.Hive) -> None:
    large = "x" * 300_000
    async with runner_of(real, agent_id="scout") as runner:
        with pytest.raises(ValueError, match="no ferry"):
            async with runner.step("book", inputs={"odd": {1, 2}, "huge": b""}):
                raise ValueError("no ferry")
        begun = asyncio.Event()

        async def wait() -> None:
            async with runner.step("wait", inputs=large):
                begun.set()
                await asyncio.Event().wait()

        waiting = asyncio.create_task(wait())
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        log = await log_of(runner)
        assert [type for type, _ in log] == ["step.started", "step.failed", "step.started", "step.cancelled"]
        assert log[0][1]["input"]["not_json"] == "{'odd': {1, 2}, 'huge': b''}"
        assert log[1][1]["error"] == {"type": "ValueError", "message": "no ferry"}
        assert log[2][1]["input"] == large
        results = [cycle.result for cycle in (await real.agents.cycles(agent_id="scout")).items]
        assert [result and result.outcome for result in results] == ["failure", "interrupted"]


async def test_what_json_cannot_hold_is_logged_by_its_description(real: hivemem.Hive) -> None:
    odd: list[object] = [2**70, 10**5_000, "\ud800", {1: 2}, object()]
    async with runner_of(real, agent_id="scout") as runner:
        for value in odd:
            async with runner.step("odd", inputs=value) as step:
                step.output = value
        log = await log_of(runner)
        assert len(log) == 2 * len(odd)
        for _, content in log:
            assert set(content.get("input") or content["output"]) == {"not_json", "why"}


async def test_a_step_runs_without_its_memories_and_says_so_unless_it_requires_them(
    real: hivemem.Hive, hive: hivemem.Hive, fleet: Fleet
) -> None:
    fleet.answers["vectors.status"] = lambda _: StatusPage(items=[], cursor=None)
    fleet.answers["vectors.recall"] = lambda _: hivemem.Internal("the index is broken")
    runner = Runner(
        sessions=real.sessions,
        vectors=hive.vectors,
        memory=real.memory,
        artifacts=real.artifacts,
        app_name="demo",
        user_id="ann",
    )
    async with runner:
        async with runner.step("answer", query="food") as step:
            assert step.context.degraded == {"memories": "Internal: the index is broken"}
        with pytest.raises(hivemem.Internal):
            async with runner.step("answer", query="food", require_context=True):
                pass
        log = await log_of(runner)
        assert [type for type, _ in log] == ["step.started", "step.completed"]
        assert log[0][1]["retrieved"]["degraded"] == {"memories": "Internal: the index is broken"}


@pytest.mark.parametrize(("next_step", "statuses"), [("book", ["completed"]), ("rest", ["abandoned", "completed"])])
async def test_a_program_that_ended_in_a_step_goes_on_with_its_cycle(
    real: hivemem.Hive, next_step: str, statuses: list[str]
) -> None:
    async with runner_of(real, agent_id="scout") as first:
        await first.step("book").__aenter__()  # and the program ends here
    async with runner_of(real, session_id=first.session_id, agent_id="scout") as second:
        assert second.interrupted is not None
        assert (second.interrupted.number, second.interrupted.status) == (1, "proposed")
        async with second.step(next_step) as step:
            assert step.cycle == len(statuses)
        assert [cycle.status for cycle in (await real.agents.cycles(agent_id="scout")).items] == statuses
        assert [type for type, _ in await log_of(second)] == ["step.started", "step.started", "step.completed"]
        with pytest.raises(hivemem.InvalidRequest, match="user_id: "):
            await runner_of(real, session_id=first.session_id, user_id="bob").__aenter__()


async def test_steps_take_turns_as_cycles_and_go_on_after_one_that_could_not_start(real: hivemem.Hive) -> None:
    async with runner_of(real, agent_id="scout") as runner:
        await real.agents.set_status(agent_id="scout", status="paused")
        with pytest.raises(hivemem.IllegalTransition):
            async with runner.step("rest"):
                pass
        await real.agents.set_status(agent_id="scout", status="active")
        await real.agents.cycle_begin(agent_id="scout")  # as a start does whose answer is lost

        async def work(number: int) -> None:
            async with runner.step("work", inputs=number):
                await asyncio.sleep(0)

        await asyncio.gather(*map(work, range(3)))
        found = [cycle.status for cycle in (await real.agents.cycles(agent_id="scout")).items]
        assert found == ["abandoned", "completed", "completed", "completed"]
        await real.sessions.terminate(session_id=runner.session_id)
        with pytest.raises(hivemem.IllegalTransition):
            async with runner.step("rest"):
                pass
        assert (await real.agents.resume(agent_id="scout")).step == "begin"


async def test_a_synchronous_runner_has_the_same_steps(url: str) -> None:
    def work() -> list[hivemem.Event]:
        with (
            hivemem.sync.connect(url, tenant=hivemem.new_id()) as hive,
            hivemem.sync.connect(url, tenant=hivemem.new_id()) as other,
        ):
            with pytest.raises(hivemem.InvalidRequest, match="vectors: it belongs to another client"):
                hivemem.sync.Runner(
                    sessions=hive.sessions,
                    vectors=other.vectors,
                    memory=hive.memory,
                    artifacts=hive.artifacts,
                    session_id="s1",
                )
            with hivemem.sync.Runner.of(hive, app_name="demo", user_id="ann", agent_id="scout") as runner:

                @runner.step("answer")
                def answer(step: hivemem.RunnerStep, question: str) -> str:
                    runner.save_artifact("menu.txt", [b"no ", b"nuts"])
                    with runner.step("look up") as part:
                        part.output = len(step.artifacts)
                    return question

                assert answer("food") == "food"
                with pytest.raises(ZeroDivisionError), runner.step("fail"):
                    _ = 1 / 0
                return runner.events()

    events = await asyncio.to_thread(work)
    assert [event.type for event in events] == [
        "step.started",
        "artifact.saved",
        "step.started",
        "step.completed",
        "step.completed",
        "step.started",
        "step.failed",
    ]
    assert events[1].parent_id == events[2].parent_id == events[4].parent_id == events[0].event_id
    assert cast("dict[str, Any]", events[3].content)["output"] == 1


def test_a_context_fits_its_budget_and_has_no_gap_among_its_events() -> None:
    def event(sequence: int) -> hivemem.Event:
        text = "hello " * (sequence * 7 % 5 + 1)
        return hivemem.Event(
            event_id=str(sequence), sequence=sequence, type="message", author="ann", content=text, at=datetime.now(UTC)
        )

    events = [event(number) for number in range(1, 12)]
    for max_tokens in range(1, 160):
        found = ContextBuilder(max_tokens, estimated_tokens).build([], {"city": "Rome", "day": 3}, events, {})
        assert found.tokens == estimated_tokens(found.text) <= max_tokens
        assert [one.sequence for one in found.events] == list(range(12 - len(found.events), 12))
