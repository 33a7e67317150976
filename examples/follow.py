"""A reader of the feed that goes on where it stopped. Start the fleet with `hivemem up`, then run this file twice.

It keeps its cursor in a file, `follow.cursor` or the one that FOLLOW_CURSOR names, and ends once it has read everything
up to the three events that it appends itself. HIVEMEM_URL names another server than the one on this machine.
"""

import asyncio
import os
from pathlib import Path

import hivemem

URL = os.environ.get("HIVEMEM_URL", "nats://127.0.0.1:4222")
KEPT = Path(os.environ.get("FOLLOW_CURSOR", "follow.cursor"))


def kept_cursor() -> str:
    """Where to go on; a reader that never read begins now."""
    try:
        return KEPT.read_text(encoding="utf-8")
    except FileNotFoundError:
        return "now"


def keep_cursor(cursor: str) -> None:
    KEPT.write_text(cursor, encoding="utf-8")


async def append_three(hive: hivemem.Hive) -> str:
    """Something to read; answers the message id of the last one."""
    session = await hive.sessions.create(app_name="follow", user_id="carol")
    last = ""
    for number in (1, 2, 3):
        last = hivemem.new_id()
        event = hivemem.NewEvent(type="count", content=number)
        await hive.with_options(message_id=last).sessions.append(session_id=session.session_id, event=event)
    return last


async def follow(hive: hivemem.Hive, since: str) -> None:
    """Read up to what is appended here, and remember after each change how far it is."""
    async with hive.changes("event", since=since) as feed:
        last = await append_three(hive)
        async for change in feed:
            print(f"  {change.at:%H:%M:%S} session {change.namespace}: event {change.version} by {change.actor}")
            # First the work, then the cursor: after a crash in between, the change is seen again rather than never.
            keep_cursor(change.cursor)
            if change.cause == last:
                return


async def main() -> None:
    since = kept_cursor()
    print(f"reading from {since}")
    async with hivemem.connect(URL, agent="reader") as hive:
        try:
            await follow(hive, since)
        except hivemem.FeedError as gap:
            # Retention removed what was not read yet, or the stream was made anew. A reader that keeps a copy of what
            # it reads would build it up again here; this one goes on with what there is.
            print(f"a gap: {gap}")
            await follow(hive, gap.resume)
    print(f"done; the cursor is in {KEPT}")


if __name__ == "__main__":
    asyncio.run(main())
