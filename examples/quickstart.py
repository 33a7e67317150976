"""The first five minutes with the client. Start the fleet with `hivemem up`, then run this file.

Set HIVEMEM_URL to use a server other than the local one.
"""

import asyncio

import hivemem


async def main() -> None:
    async with hivemem.connect(agent="planner") as hive:
        session = await hive.sessions.create(app_name="quickstart", user_id="alice", initial_state={"mood": "curious"})
        session_id = session.session_id
        print(f"session {session_id} is {session.status}")

        # A request: when it returns, the event and its change of the state are on disk.
        appended = await hive.sessions.append(
            session_id=session_id,
            event=hivemem.NewEvent(type="question", content={"text": "What is a hive?"}),
            state_delta={"topic": "bees", "user:language": "en"},
        )
        print(f"event {appended.sequence} is stored, at revision {appended.revision}")

        # Two agents write at the same time: the one that expects an old revision gets a conflict.
        try:
            await hive.sessions.state_set(session_id=session_id, key="topic", value="wasps", expect_revision=1)
        except hivemem.RevisionConflict as conflict:
            print(f"refused: {conflict}")

        # A durable command: the bus stores it, and a worker carries it out a moment later. Its message id comes back on
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
