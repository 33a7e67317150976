"""A reader of the feed that resumes where it stopped. Start the fleet with `hivemem up`, then run this file twice.

It keeps its cursor in a file, `follow.cursor` or FOLLOW_CURSOR, and ends when it has read everything up to the three
events that it appends itself. Set HIVEMEM_URL to use a server other than the local one.
"""

import asyncio
import os
from pathlib import Path

import hivemem

KEPT = Path(os.environ.get("FOLLOW_CURSOR", "follow.cursor"))


def kept_cursor() -> str:
    """Return the saved cursor; a new reader begins now."""
    try:
        return KEPT.read_text(encoding="utf-8")
    except FileNotFoundError:
        return "now"


def keep_cursor(cursor: str) -> None:
    KEPT.write_text(cursor, encoding="utf-8")


async def append_three(hive: hivemem.Hive) -> str:
    """Append events to read, and return the message id of the last one."""
    session = await hive.sessions.create(app_name="follow", user_id="carol")
    last = ""
    for number in (1, 2, 3):
        last = hivemem.new_id()
        event = hivemem.NewEvent(type="count", content=number)
        await hive.with_options(message_id=last).sessions.append(session_id=session.session_id, event=event)
    return last


async def follow(hive: hivemem.Hive, since: str) -> None:
    """Read up to the appended events, and save the cursor after each change."""
    async with hive.changes("event", since=since) as feed:
        last = await append_three(hive)
        async for change in feed:
            print(f"  {change.at:%H:%M:%S} session {change.namespace}: event {change.version} by {change.actor}")
            # First the work, then the cursor: after a crash in between, the change is seen again, and not lost.
            keep_cursor(change.cursor)
            if change.cause == last:
                return


async def main() -> None:
    since = kept_cursor()
    print(f"reading from {since}")
    async with hivemem.connect(agent="reader") as hive:
        try:
            await follow(hive, since)
        except hivemem.FeedError as gap:
            # Retention removed unread changes, or the stream was recreated. A reader with a copy of the data
            # would rebuild it here; this one continues with the remaining changes.
            print(f"a gap: {gap}")
            await follow(hive, gap.resume)
    print(f"done; the cursor is in {KEPT}")


if __name__ == "__main__":
    asyncio.run(main())
