"""A full disk under the fleet's nats-server shows within seconds, and service resumes once there is room again."""

import time
from pathlib import Path
from typing import Any, Final

import orjson

from hivemem_runtime.bus.connection import connect
from hivemem_testing.disks import small_disk

from .asking import append_event, create_session
from .conftest import StartUp
from .test_going_on import page
from .up import eventually

MEBIBYTES: Final = 160
SHOWN_SECONDS: Final = 10.0
HEALED_SECONDS: Final = 60.0


def fill(place: Path) -> Path:
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(65_536)):
                pass
        except OSError:
            return filler
    raise AssertionError("the disk never was full")


async def announced(url: str, last: int) -> list[int]:
    """Follow the feed through version `last` and return the versions of the session's events."""
    client = await connect(url, "tests")
    told: list[int] = []
    try:
        subscription = await client.jetstream().subscribe(  # pyright: ignore[reportUnknownMemberType]  # untyped options
            "hive.chg.acme.event.s1", ordered_consumer=True
        )
        while last not in told:
            message = await subscription.next_msg(timeout=HEALED_SECONDS)
            told.append(int(orjson.loads(message.data)["version"]))
    finally:
        await client.close()
    return told


async def test_a_full_disk_shows_in_readiness_and_the_feed_goes_on_when_there_is_room(
    start_up: StartUp, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with small_disk(data / "nats", MEBIBYTES):
        up = start_up(data=data).ready()
        await create_session(up.nats, "s1")
        filler = fill(data / "nats")
        number, began = 0, None
        body: dict[str, Any] = {}
        while began is None or time.monotonic() - began < SHOWN_SECONDS:
            number += 1
            await append_event(up.nats, "s1", number)
            code, body = page(up.http, "/readyz")
            if code == 503 and "no space left on device" in str(body["troubles"]):
                break
            if began is None and "no space left" in (data / "nats" / "server.log").read_text():
                began = time.monotonic()
        else:
            raise AssertionError(f"not told within {SHOWN_SECONDS} s of the first refused write: {body}")
        filler.unlink()
        eventually(lambda: page(up.http, "/readyz")[0] == 200, "it is ready again", HEALED_SECONDS)
        await append_event(up.nats, "s1", number + 1)
        assert await announced(up.nats, number + 1) == list(range(1, number + 2))
        assert up.stop() == 0
