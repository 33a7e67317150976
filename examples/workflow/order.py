"""An order that survives a kill: a process is killed in the middle of a step, and another one goes on.

Start the fleet with `hivemem up`, then run this file. Its argument is the id of the first run; another id begins anew.
Set HIVEMEM_URL to use a server other than the local one.
"""

import asyncio
import sys

import hivemem

hive = hivemem.Hive(agent="shop")


@hive.workflow(name="purchase")
class Order(hivemem.Workflow):
    """Reserves, asks about large sums, and pays."""

    @hivemem.step(save="stock", compensate="release")
    async def reserve(self) -> int:
        return 2

    async def release(self) -> None:
        print("released", hive.step.output)

    @hivemem.step(then={"pay": "input.sum < 100", "approval": None})
    async def check(self) -> None:
        pass

    approval = hivemem.wait_signal("approved", then={"pay": "signal == true", "drop": None})

    async def drop(self) -> None:
        raise hivemem.StepFailed("not approved")

    @hivemem.step(save="receipt")
    async def pay(self) -> str:
        if hive.step.attempt == 1:
            print("paying", flush=True)
            await asyncio.sleep(60)  # the first process is killed here
        return await hive.step.once("payment", charge)


async def charge() -> str:
    """Charge the sum once, whatever becomes of the process afterwards."""
    return f"paid {hive.step.input['sum']}"


async def work() -> None:
    """Work on all orders, as a process that is killed."""
    await Order.serve(lease_seconds=1)


async def main(order: str) -> None:
    first = await asyncio.create_subprocess_exec(sys.executable, __file__, "--work", stdout=asyncio.subprocess.PIPE)
    assert first.stdout is not None
    await Order.start(run_id=order, input={"sum": 30})
    assert (await first.stdout.readline()).strip() == b"paying"
    first.kill()
    await first.wait()
    print("the process is killed while it pays")

    second = asyncio.create_task(Order.serve(lease_seconds=1))
    small = await ended(order)
    print(f"{order}: {small.status}, {small.state['receipt']}")

    await Order.start(run_id=f"{order}-large", input={"sum": 500})
    await hive.workflows.signal(f"{order}-large", "approved", False)
    large = await ended(f"{order}-large")
    second.cancel()
    print(f"{order}-large: {large.status}, {large.error}")
    await hive.close()


async def ended(run_id: str) -> hivemem.Run:
    """Wait until a run has ended, and return it."""
    async with hive.changes("run.purchase", since="start") as feed:
        async for change in feed:
            if change.key == run_id and change.operation in ("completed", "failed", "compensated", "cancelled"):
                break
    return await hive.workflows.run(run_id)


if __name__ == "__main__":
    asyncio.run(work() if "--work" in sys.argv else main(sys.argv[1] if len(sys.argv) > 1 else hivemem.new_id()))
