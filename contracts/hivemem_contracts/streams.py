"""The names that a reader of the fleet needs on the NATS server."""

from typing import Final

INGEST: Final = "INGEST"
CHANGES: Final = "CHANGES"
DEAD: Final = "DEAD"
MEMBERS: Final = "hive_members"
"""The key-value bucket of the workers that are alive: `<service>.<member>`."""

BEGUN: Final = "hive_begun"
"""The key-value bucket of the workers that began with a partition's commands and may have died of one:
`<service>-p<n>`."""

CLAIMS: Final = "hive_claims"
"""The key-value bucket of what one worker does for all of them; see `bus.claims`."""

FEED_KEY: Final = "hive_feed_key"
"""The key-value bucket of the one key that workers sign changes with. It is written once."""

FEED_EPOCH: Final = "hivemem-epoch"
"""In the metadata of CHANGES: the epoch of the feed. It changes whenever sequences may be handed out a second time."""

FEED_ID: Final = "ce-id"
"""The id of a change. What stands behind its last colon is the version of the record that it announces."""

SIGNATURE: Final = "Hive-Signature"
"""On changes: proves to the other workers that a worker wrote the message."""

LIVE_PREFIX: Final = "hive.live"
"""Each change again, as a plain message below this instead of `hive.chg`, for those who have no stream API."""

MESSAGE_ID: Final = "Nats-Msg-Id"
COMMAND_ID: Final = "Hive-Msg-Id"
"""The idempotency key of a request or a durable command; without it, the `Nats-Msg-Id` is the key. The server itself
drops a message whose `Nats-Msg-Id` its stream has just seen, from any agent and for any operation, but not by this."""
MINIMUM_SERVER: Final = (2, 14, 0)
"""Pinned consumers are reset through an API that came with 2.14."""

# A dead letter has the body of the message that could never succeed, the two error headers of an error reply
# (`errors.CODE_HEADER`, `errors.TEXT_HEADER`), its own `Nats-Msg-Id`, and:

DEAD_ERROR: Final = "Hive-Error"
"""The JSON error body, on one line."""

DEAD_SUBJECT: Final = "Hive-Subject"
"""The subject that it was published to: publish the body there again once the cause is gone."""

DEAD_MESSAGE_ID: Final = COMMAND_ID
"""Its idempotency key, or the id that it was given for lack of one: the `cause` that it would have had on the feed.
Published again with this header, what it did already is not done once more."""

DEAD_AT: Final = "Hive-At"
"""When it was given up."""

DEAD_BODY_OMITTED: Final = "Hive-Body-Omitted"
"""Only where body and headers together are over the server's payload limit: the body's length; it is left out."""
