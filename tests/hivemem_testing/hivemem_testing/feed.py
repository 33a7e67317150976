"""Changes in the form in which workers announce them, for tests that play a worker."""

from nats.aio.client import Client

from hivemem_contracts.changes import Change, change_headers
from hivemem_contracts.streams import FEED_ID, SIGNATURE
from hivemem_contracts.subjects import Address, change_subject
from hivemem_runtime.bus.feed.fleet_key import fleet_key, signature

LEDGER = "tests"


async def announced(client: Client, change: Change, address: Address) -> tuple[str, bytes, dict[str, str]]:
    """Return the message of a change: its subject, its body, and its headers, signed with the fleet's key."""
    subject = change_subject(change.tenant, change.entity, address)
    body = change.model_dump_json().encode()
    headers = change_headers(change, address.tokens)
    key = await fleet_key(client)
    return subject, body, headers | {SIGNATURE: signature(key, LEDGER, subject, headers[FEED_ID], body)}
