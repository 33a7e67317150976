"""Every limit of the wire, in one place. What is larger answers `TooLarge` and names the limit."""

from typing import Final

ID_CHARACTERS: Final = 256
SUBJECT_BYTES: Final = 3_500
"""A subject is refused before it reaches the wire: past 4,200 bytes the server closes the connection."""

MESSAGE_BYTES: Final = 1_000_000
"""The body of one request or durable command. A server's default payload of 1 MiB counts the headers too: at exactly
that size a message with headers closes the connection."""

VALUE_BYTES: Final = 262_144
"""One state value, one event's content, one metadata object, encoded as JSON."""

STATE_BYTES: Final = 524_288
"""All keys of one state scope together: a session's own, a user's, an app's, a project's."""

MACHINE_BYTES: Final = 32_768
"""The definition of one state machine; it travels with every session that runs on it."""

CHANGE_VALUE_BYTES: Final = 65_536
"""A larger value is left out of its change, which says so with `value_omitted`."""

REPLY_BYTES: Final = 786_432
"""A page ends before its items pass this, so that every answer fits a server's default payload."""

LIST_DEFAULT: Final = 50
LIST_MAXIMUM: Final = 1_000
BATCH_ITEMS: Final = 1_000
JSON_DEPTH: Final = 100
