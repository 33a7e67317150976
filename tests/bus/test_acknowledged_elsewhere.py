"""JetStream acknowledges a durable command on any subject that its publisher names, with the server's own rights."""

from nats.aio.client import Client

from hivemem_contracts.streams import CLAIMS, FEED_KEY
from hivemem_runtime.bus.feed.claims import claim
from hivemem_runtime.bus.feed.fleet_key import SUBJECT, fleet_key

from .stored import messages_in
from .waiting import eventually


async def acknowledged_on(client: Client, *subjects: str) -> None:
    """Publish a command for each subject, and return once the server has acknowledged all of them there."""
    heard: list[str] = []

    async def all_heard() -> bool:
        return len(heard) == len(subjects)

    async def hear(message: object) -> None:
        heard.append(str(message))

    subscriptions = [await client.subscribe(subject, cb=hear) for subject in subjects]  # pyright: ignore[reportUnknownMemberType]
    for subject in subjects:
        await client.publish("hive.in.acme.mallory.items.add.a", b"{}", reply=subject)
    await eventually(all_heard, "every acknowledgement was sent")
    for subscription in subscriptions:
        await subscription.unsubscribe()


async def test_no_acknowledgement_replaces_the_key_of_the_feed(client: Client) -> None:
    key = await fleet_key(client)
    await acknowledged_on(client, SUBJECT, f"$KV.{FEED_KEY}.other")
    assert await fleet_key(client) == key
    assert len(await messages_in(client, f"KV_{FEED_KEY}")) == 1


async def test_acknowledgements_neither_fill_the_claims_nor_keep_others_from_claiming(client: Client) -> None:
    assert await claim(client, "scrubbed", "first")
    await acknowledged_on(client, f"$KV.{CLAIMS}.scrubbed", f"$KV.{CLAIMS}.other")
    assert await claim(client, "scrubbed", "second")
    assert not await claim(client, "scrubbed", "second")
    assert len(await messages_in(client, f"KV_{CLAIMS}")) == 1
