"""The first five minutes with the client. Start the fleet with `hivemem up`, then run this file.

HIVEMEM_URL names another server than the one on this machine.
"""

import asyncio
import os

import hivemem

URL = os.environ.get("HIVEMEM_URL", "nats://127.0.0.1:4222")


async def main() -> None:
    async with hivemem.connect(URL, agent="planner") as hive:
        session = await hive.sessions.create(app_name="quickstart", user_id="alice", initial_state={"mood": "curious"})
        session_id = session.session_id
        print(f"session {session_id} is {session.status}")

        # A request: when it returns, the event is on disk and the state has changed with it.
        appended = await hive.sessions.append(
            session_id=session_id,
            event=hivemem.NewEvent(type="question", content={"text": "What is a hive?"}),
            state_delta={"topic": "bees", "user:language": "en"},
        )
        print(f"event {appended.sequence} is there, at revision {appended.revision}")

        # Two agents that write at the same time: who asks for the revision that is no longer there is told so.
        try:
            await hive.sessions.state_set(session_id=session_id, key="topic", value="wasps", expect_revision=1)
        except hivemem.RevisionConflict as conflict:
            print(f"refused: {conflict}")

        # A durable command: the bus keeps it, and a worker carries it out a moment later. Its message id comes back on
        # the feed as the cause of the change.
        async with hive.changes(hivemem.prefix("event", session_id)) as feed:
            receipt = await hive.publish(
                hive.sessions.append, session_id=session_id, event=hivemem.NewEvent(type="answer", content="A home.")
            )
            async for change in feed:
                if change.cause == receipt.message_id:
                    print(f"the durable command became event {change.version}")
                    break

        view = await hive.sessions.get(session_id=session_id, events=10)
        print(f"state: {view.session.state}")
        for event in view.events:
            print(f"  {event.sequence}. {event.type} by {event.author}: {event.content}")

        await hive.sessions.terminate(session_id=session_id)
        print("done")


if __name__ == "__main__":
    asyncio.run(main())
