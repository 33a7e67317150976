"""`hivemem bench`: how fast this fleet takes appends, measured from here."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

import typer

from hivemem.cli.counts import counted
from hivemem.cli.rendering import print_fields, print_json, print_notes
from hivemem.cli.settings import Json, Settings, run
from hivemem.hive import Hive
from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.sessions.models import NewEvent

SESSIONS_MAXIMUM: Final = 1_000
SECONDS_MAXIMUM: Final = 600.0
SAMPLES_MAXIMUM: Final = 2_000_000
CATCH_UP_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.05

app = typer.Typer(add_completion=False, rich_markup_mode="rich")


@app.command()
def bench(
    ctx: typer.Context,
    sessions: Annotated[
        int, typer.Option(min=1, max=SESSIONS_MAXIMUM, help="Number of sessions, each with one writer at a time.")
    ] = 20,
    seconds: Annotated[float, typer.Option(min=0.1, max=SECONDS_MAXIMUM, help="Duration in seconds.")] = 5.0,
    durable: Annotated[
        bool, typer.Option("--durable", help="Publish durable commands, and wait until they are carried out.")
    ] = False,
    json: Json = False,
) -> None:
    """Append small events to new sessions, show the rate and the latency, and delete the sessions afterwards."""
    settings = Settings.of(ctx, json)
    result = run(
        settings, lambda hive: measure(hive, sessions, seconds, durable), waiting=f"appending for {seconds:g} s"
    )
    if settings.json:
        print_json(result)
        return
    what = "durable commands" if durable else "requests"
    print_notes([f"{counted(sessions, 'session')}, {result['seconds']} s, sessions.append as {what}"])
    print_fields(result)


async def measure(hive: Hive, sessions: int, seconds: float, durable: bool) -> dict[str, Any]:
    """Rates by the second, latencies in milliseconds."""
    run_id = new_id()
    ids = [f"bench-{run_id}-{number}" for number in range(sessions)]
    await asyncio.gather(
        *[hive.sessions.create(session_id=id, app_name="hivemem-bench", user_id="hivemem-bench") for id in ids]
    )
    try:
        return await _measure(hive, ids, seconds, durable)
    finally:
        await asyncio.gather(*[hive.sessions.delete(session_id=id) for id in ids])


async def _measure(hive: Hive, ids: list[str], seconds: float, durable: bool) -> dict[str, Any]:
    event = NewEvent(type="bench", content={"text": "a small event, as agents write them"})

    async def request(session_id: str) -> None:
        await hive.sessions.append(session_id=session_id, event=event)

    async def publish(session_id: str) -> None:
        await hive.publish(hive.sessions.append, session_id=session_id, event=event)

    samples: list[float] = []
    started = time.perf_counter()
    write = publish if durable else request
    await asyncio.gather(*[_write(write, id, started + seconds, samples) for id in ids])
    took = time.perf_counter() - started
    samples.sort()
    result: dict[str, Any] = {
        "appends": len(samples),
        "seconds": round(took, 2),
        "per_second": round(len(samples) / took),
        **{f"p{part}_ms": _percentile(samples, part) for part in (50, 95, 99)},
        "maximum_ms": round(samples[-1] * 1_000, 2),
    }
    if durable:
        await _carried_out(hive, ids, len(samples))
        result["carried_out_per_second"] = round(len(samples) / (time.perf_counter() - started))
    return result


async def _write(write: Callable[[str], Awaitable[None]], id: str, until: float, samples: list[float]) -> None:
    before = time.perf_counter()
    while before < until and len(samples) < SAMPLES_MAXIMUM:
        await write(id)
        after = time.perf_counter()
        samples.append(after - before)
        before = after


async def _carried_out(hive: Hive, ids: list[str], expected: int) -> None:
    deadline = time.perf_counter() + CATCH_UP_SECONDS
    while True:
        views = await asyncio.gather(*[hive.sessions.get(session_id=id) for id in ids])
        done = sum(view.session.event_count for view in views)
        if done >= expected:
            return
        if time.perf_counter() > deadline:
            raise Unavailable(f"{done} of {expected} commands were carried out in {CATCH_UP_SECONDS:.0f} s more")
        await asyncio.sleep(POLL_SECONDS)


def _percentile(samples: list[float], part: int) -> float:
    return round(samples[min(len(samples) - 1, len(samples) * part // 100)] * 1_000, 3)
