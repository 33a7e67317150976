"""An agent that is killed in the middle of its work, and goes on where it stood.

Start the fleet with `hivemem up`, then run this file. Its argument is the id of the trip that it writes about; another
id begins anew. The program starts the agent as a process of its own, kills it (`kill -9`) and starts it again. Set
HIVEMEM_URL to use a server other than the local one.
"""

import asyncio
import sys

import hivemem
from hivemem import Runner

PLACES = ("Rome", "Naples", "Naxos", "Athens")
KILLED_AT = "Naxos"


def model(place: str) -> str:
    """Stand in for a language model. A real one is called here."""
    return f"{place} is worth a visit.\n"


async def agent(trip: str, stuck_at: str | None = None) -> None:
    """Write a file about each place, and count in the state how many are done. One place may take for ever."""
    async with (
        hivemem.connect(agent="reporter") as hive,
        Runner.of(hive, session_id=trip, app_name="examples", user_id="rosa", agent_id=trip) as runner,
    ):
        interrupted = runner.interrupted
        if interrupted is not None and interrupted.proposal is not None:
            print(f"  cycle {interrupted.number} was interrupted", flush=True)
        done = (await runner.load_state()).get("done", 0)
        assert isinstance(done, int)
        for number, place in enumerate(PLACES[done:], start=done + 1):
            async with runner.step(f"write about {place}") as step:
                print(f"  cycle {step.cycle}: {place}", flush=True)
                if place == stuck_at:
                    await asyncio.Event().wait()
                # A second run of this step saves the same bytes, and sets the same state.
                artifact = await runner.save_artifact(f"{place.lower()}.txt", model(place).encode())
                await runner.save_state({"done": number})
                step.output = artifact.url


async def run(trip: str, *, kill_at: str | None) -> None:
    """Run the agent as a process, and kill it while it writes about a place."""
    words = [trip, "--agent", *([] if kill_at is None else [kill_at])]
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, *words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async for line in process.stdout:
        print(line.decode().rstrip())
        if kill_at is not None and kill_at in line.decode():
            process.kill()
            print("  killed")
            break
    status = await process.wait()
    if kill_at is None and status != 0:
        raise SystemExit(f"the agent failed with status {status}")


async def main(trip: str) -> None:
    print("the agent starts")
    await run(trip, kill_at=KILLED_AT)
    print("the agent starts again")
    await run(trip, kill_at=None)
    print(f"done; the files are in session {trip}")


if __name__ == "__main__":
    chosen = sys.argv[1] if len(sys.argv) > 1 else hivemem.new_id()
    asyncio.run(agent(chosen, *sys.argv[3:]) if "--agent" in sys.argv else main(chosen))
