"""Workflows as programs write them."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import hivemem
from hivemem import sleep as timer

from .conftest import Fleet

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def hive(fleet: Fleet) -> AsyncIterator[hivemem.Hive]:
    async with hivemem.connect(fleet.url, tenant=uuid.uuid4().hex, agent="shop") as hive:
        yield hive


async def test_a_class_is_a_workflow_whose_methods_are_steps(hive: hivemem.Hive) -> None:
    undone: list[Any] = []

    @hive.workflow
    class Order(hivemem.Workflow):
        """Sells something."""

        @hivemem.step(save="stock", retry=hivemem.Retry(attempts=3, delay_seconds=0), compensate="release")
        async def reserve(self) -> dict[str, Any]:
            if hive.step.attempt < 3:
                raise ValueError("not yet")
            return {"sku": hive.step.input["sku"], "attempt": hive.step.attempt}

        async def release(self) -> None:
            undone.append(hive.step.output)

        checks = hivemem.parallel(["credit"], ["address", "city"])
        pause = timer(0.01, then={"paid": "input.free", "pay": None})

        @hivemem.step(save="credit")
        async def credit(self) -> int:
            return 1

        async def address(self) -> None:
            pass

        async def city(self) -> None:
            pass

        async def pay(self) -> None:
            raise hivemem.StepFailed("no money")

        paid = hivemem.wait_signal("paid", save="paid", timeout_seconds=60)

    failed = await Order.run(input={"sku": 7, "free": False}, lease_seconds=5)
    assert (failed.status, failed.error) == (
        "compensated",
        {"step": "pay", "error": {"type": "StepFailed", "detail": "no money"}},
    )
    assert undone == [{"sku": 7, "attempt": 3}]
    waiting = asyncio.create_task(Order.run(input={"sku": 8, "free": True}, run_id="free"))
    async with hive.changes("run.order", since="start") as feed:
        async for change in feed:
            if change.key == "free" and change.operation == "waiting":
                break
    await hive.workflows.signal("free", "paid", {"euro": 5})
    run = await waiting
    assert (run.status, run.state["paid"], run.state["credit"]) == ("completed", {"euro": 5}, 1)
    shown = await hive.workflows.show("order")
    assert (shown.version, shown.definition.description) == (1, "Sells something.")


async def test_a_side_effect_happens_once_over_a_crash_and_a_cancelled_step_ends(hive: hivemem.Hive) -> None:
    effects: list[str] = []
    reached, cancelled = asyncio.Event(), asyncio.Event()

    async def mail() -> str:
        effects.append(hive.step.key)
        return "sent"

    async def send() -> str:
        result = await hive.step.once("mail", mail)
        reached.set()
        if hive.step.attempt == 1:
            await asyncio.Event().wait()
        return result

    async def wait() -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    definition = {"steps": [{"id": "send", "save": "mail"}, {"id": "wait"}]}
    await hive.workflows.apply("post", definition)
    post = hive.workflows.handlers("post", {"send": send, "wait": wait})
    crashing = asyncio.create_task(post.serve(lease_seconds=60))
    run = await post.start()
    await reached.wait()
    crashing.cancel()  # its claim is given back
    await asyncio.gather(crashing, return_exceptions=True)
    reached.clear()
    serving = asyncio.create_task(post.serve(lease_seconds=0.3))
    await reached.wait()
    reached.clear()
    await reached.wait()
    assert effects == [f"{run.run_id}/1"]
    await hive.workflows.cancel(run.run_id)
    await cancelled.wait()
    found = await hive.workflows.run(run.run_id)
    assert (found.status, found.state) == ("cancelled", {"mail": "sent"})
    assert found.steps[0].attempt > 1
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_a_class_that_names_unknown_steps_is_refused(hive: hivemem.Hive) -> None:
    class Wrong(hivemem.Workflow):
        @hivemem.step(compensate="relase")
        async def reserve(self) -> None: ...

        async def release(self) -> None: ...

    with pytest.raises(TypeError, match="Wrong has no step 'relase' \\(did you mean 'release'\\?\\)"):
        hive.workflow(Wrong)
    with pytest.raises(RuntimeError, match="no step of a workflow"):
        _ = hive.step
