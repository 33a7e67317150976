"""Hivemem without its client: nats-py and JSON are enough, and any other NATS client works the same way.

Start the fleet with `hivemem up`, then run this file. Set HIVEMEM_URL to use a server other than the local one.
"""

import asyncio
import json
import os
import uuid
from typing import Any

import nats
from nats.aio.client import Client

URL = os.environ.get("HIVEMEM_URL", "nats://127.0.0.1:4222")
TENANT, AGENT = "default", "plain"


async def request(client: Client, operation: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send a request to `hive.req.<tenant>.<agent>.<service>.<operation>`; its id makes it safe to send it again."""
    message = await client.request(
        f"hive.req.{TENANT}.{AGENT}.sessions.{operation}",
        json.dumps(body).encode(),
        timeout=5,
        headers={"Hive-Msg-Id": uuid.uuid4().hex},
    )
    answer: dict[str, Any] = json.loads(message.data)
    if "Nats-Service-Error-Code" in (message.headers or {}):
        raise RuntimeError(f"{answer['error']['name']}: {answer['error']['detail']}")
    return answer


async def main() -> None:
    # Answers go to inboxes of this agent only: a server can keep others from listening there.
    client = await nats.connect(URL, inbox_prefix=f"_INBOX_{TENANT}_{AGENT}")
    session_id = uuid.uuid4().hex

    session = await request(
        client, "create", {"session_id": session_id, "app_name": "plain", "user_id": "bob", "initial_state": {"n": 0}}
    )
    print(f"session {session['session_id']} is {session['status']}")

    appended = await request(
        client,
        "append",
        {"session_id": session_id, "event": {"type": "note", "content": "by request"}, "state_delta": {"n": 1}},
    )
    print(f"event {appended['sequence']} is stored, at revision {appended['revision']}")

    # A durable command is a publish to a stream: `hive.in.<tenant>.<agent>.<service>.<operation>.<route>`.
    stream = client.jetstream()
    command = {"session_id": session_id, "event": {"type": "note", "content": "by durable command"}}
    acknowledged = await stream.publish(
        f"hive.in.{TENANT}.{AGENT}.sessions.append.{session_id}",
        json.dumps(command).encode(),
        headers={"Hive-Msg-Id": uuid.uuid4().hex},
    )
    print(f"the durable command is number {acknowledged.seq} of stream {acknowledged.stream}")

    # The feed from the start: every change of the session's events, in order.
    subscription = await stream.subscribe(
        f"hive.chg.{TENANT}.event.{session_id}", stream="CHANGES", ordered_consumer=True, idle_heartbeat=1.0
    )
    for _ in range(2):
        message = await subscription.next_msg(timeout=10)
        change = json.loads(message.data)
        print(f"{change['entity']} {change['operation']}, version {change['version']}: {change['value']['content']}")

    try:
        await request(client, "get", {"session_id": "no such session"})
    except RuntimeError as error:
        print(f"an error looks like this: {error}")
    await client.close()
    print("done")


if __name__ == "__main__":
    asyncio.run(main())
