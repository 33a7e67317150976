"""The names of streams, buckets and headers on the NATS server."""

from typing import Final

INGEST: Final = "INGEST"
CHANGES: Final = "CHANGES"
DEAD: Final = "DEAD"
MEMBERS: Final = "hive_members"
"""The key-value bucket of living workers: `<service>.<member>`."""

BEGUN: Final = "hive_begun"
"""The key-value bucket of workers that started the commands of a partition and may have died of one:
`<service>-p<n>`."""

CLAIMS: Final = "hive_claims"
"""The key-value bucket of what one worker does for all of them; see `bus.claims`."""

FEED_KEY: Final = "hive_feed_key"
"""The key-value bucket of the one key that workers sign changes with. It is written once."""

FEED_EPOCH: Final = "hivemem-epoch"
"""The epoch of the feed, in the metadata of CHANGES. It changes whenever sequences may be assigned a second time."""

FEED_ID: Final = "ce-id"
"""The id of a change. The part after its last colon is the version of the announced record."""

SIGNATURE: Final = "Hive-Signature"
"""On changes: proves to the other workers that a worker wrote the message."""

PURGED: Final = "hive_purged"
"""The bucket that says which messages of CHANGES were purged on purpose."""
PURGED_SUBJECT: Final = f"$KV.{PURGED}.sequences"
"""Each message has `{feed, total, ranges}`: the creation of CHANGES, how many of its messages were purged so far, and
the first and last sequences of those that this message adds."""

LIVE_PREFIX: Final = "hive.live"
"""Each change as a plain message, below this prefix instead of `hive.chg`, for clients without a stream API."""

MESSAGE_ID: Final = "Nats-Msg-Id"
COMMAND_ID: Final = "Hive-Msg-Id"
"""The idempotency key of a request or a durable command; without it, the `Nats-Msg-Id` is the key. The server drops a
message whose `Nats-Msg-Id` its stream has just seen, from any agent and for any operation, but it ignores this
header."""
MINIMUM_SERVER: Final = (2, 14, 0)
"""The oldest supported nats-server: 2.14 added the API to reset pinned consumers."""

# A dead letter has the body of the message that could never succeed, the two error headers of an error reply
# (`errors.CODE_HEADER`, `errors.TEXT_HEADER`), its own `Nats-Msg-Id`, and:

DEAD_ERROR: Final = "Hive-Error"
"""The JSON error body, on one line."""

DEAD_SUBJECT: Final = "Hive-Subject"
"""The subject that it was published to: publish the body there again once the cause is fixed."""

DEAD_MESSAGE_ID: Final = COMMAND_ID
"""Its idempotency key, or else its generated id: the `cause` that it would have had on the feed. Published again with
this header, the command is applied once at most."""

DEAD_AT: Final = "Hive-At"
"""When it became a dead letter."""

DEAD_BODY_OMITTED: Final = "Hive-Body-Omitted"
"""The length of a body that was left out, because body and headers exceed the server's payload limit together."""
