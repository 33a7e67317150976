"""Every limit of the wire, in one place. A larger value is answered with `TooLarge`, which names the limit."""

from typing import Final

ID_CHARACTERS: Final = 256
SUBJECT_BYTES: Final = 3_500
"""A subject is refused before it reaches the wire: past 4,200 bytes the server closes the connection."""

INBOX_PREFIX_BYTES: Final = 960
"""The inbox prefix of an agent, which is made of its tenant and its own name. A message has two subjects, its own and
that of its answer, and the server closes the connection when they are over 4,096 bytes together."""

MESSAGE_BYTES: Final = 1_000_000
"""The body of one request or durable command. A server's default payload of 1 MiB counts the headers too: at exactly
that size a message with headers closes the connection."""

VALUE_BYTES: Final = 262_144
"""One state value, one event's content, one metadata object, encoded as JSON."""

LARGE_VALUE_BYTES: Final = 8_388_608
"""One state value or one event's content that is kept as a file of its session, encoded as JSON."""

STATE_BYTES: Final = 524_288
"""All keys of one state scope together: a session's own, a user's, an app's, a project's."""

STATE_INDEXES: Final = 8
"""The state keys of one app by which its sessions can be found."""

MEMORY_VALUE_BYTES: Final = 524_288
"""The value of one memory, encoded as JSON."""

MEMORY_INDEX_TEXTS: Final = 100
"""The texts by which recall finds one memory; together at most `VALUE_BYTES`, encoded as JSON."""

MEMORY_WHERE_FIELDS: Final = 16
MEMORY_WHERE_BYTES: Final = 16_384
"""The fields by which memories are filtered, with their values."""

MACHINE_BYTES: Final = 32_768
"""The definition of one state machine; it travels with every session that runs on it."""

EXPRESSION_STEPS: Final = 100_000
"""The steps of all guards of one event together. The count depends only on the guards and their input."""

EXPRESSION_BYTES: Final = 4_194_304
"""The texts and lists that all guards of one event may build together."""

CHANGE_VALUE_BYTES: Final = 65_536
"""A larger value is left out of its change, which says so with `value_omitted`."""

REPLY_BYTES: Final = 786_432
"""A page ends before its items pass this, so that every answer fits a server's default payload."""

LIST_DEFAULT: Final = 50
LIST_MAXIMUM: Final = 1_000
CURSOR_CHARACTERS: Final = 4_096
BATCH_ITEMS: Final = 1_000
LEASE_MINIMUM_MS: Final = 100
LEASE_MAXIMUM_MS: Final = 3_600_000
LEASE_WAIT_MAXIMUM_MS: Final = 300_000
LEASE_WAITERS: Final = 1_000
"""The length of a lease's queue; further requests are refused with LeaseHeld at once."""

ARTIFACT_NAME_BYTES: Final = 512
"""The name of a file, in UTF-8."""

ARTIFACT_SEGMENT_BYTES: Final = 200
"""One segment of a file's name: the 255 of file systems, less the prefix of stored names."""

ARTIFACT_INLINE_BYTES: Final = 524_288
"""The bytes of a file in one request or one answer; larger files use chunks."""

ARTIFACT_DATA_CHARACTERS: Final = 4 * ((ARTIFACT_INLINE_BYTES + 2) // 3)
"""`ARTIFACT_INLINE_BYTES` in base64."""

ARTIFACT_CHUNK_BYTES: Final = 524_288
"""One chunk of a larger file, unless the server's payload limit is lower."""

ARTIFACT_CHUNK_WINDOW: Final = 8
"""The number of chunks of an upload under way at once, which may arrive in any order."""

ARTIFACT_METADATA_BYTES: Final = 16_384
"""The metadata of a file, encoded as JSON."""

ARTIFACT_BYTES: Final = 2**37
"""One file; a worker may have a lower setting."""

WORKSPACE_FILES: Final = 100_000
"""The files of one version of a workspace."""

WORKSPACE_LIST_BYTES: Final = 33_554_432
"""The list of the files of one version that is uploaded as a blob, as JSON."""

WORKSPACE_PART_FILES: Final = 10_000
"""The files in one request, which also has to fit into `MESSAGE_BYTES`."""

WORKSPACE_MESSAGE_CHARACTERS: Final = 4_096
"""The message of one version."""

WORKSPACE_RANGES: Final = 1_000
"""The ranges of blobs that one request reads; together at most the `read_bytes` of its workspace."""

EMBEDDING_DIMENSIONS: Final = 8_192
"""The most numbers of one vector."""

VECTOR_METADATA_BYTES: Final = 4_096
"""The metadata of one vector, encoded as JSON: a hundred of them fit into one answer."""

QUERY_CHARACTERS: Final = 8_192
"""The question of a recall; a model reads only its beginning."""

RECALL_MAXIMUM: Final = 100
RECALL_FILTERS: Final = 16
RECALL_SESSIONS: Final = 100
RECALL_CONTEXT: Final = 10
RECALL_WAIT_DEFAULT_MS: Final = 5_000
RECALL_WAIT_MAXIMUM_MS: Final = 30_000

AGENT_ID_CHARACTERS: Final = 200
"""The id of an agent, which is a segment of the namespace of its records."""

AGENT_BYTES: Final = 262_144
"""The definition of an agent, and the proposal or the result of one cycle, encoded as JSON."""

CYCLE_ARTIFACTS: Final = 1_000
"""The files that one cycle names."""

WORKFLOW_BYTES: Final = 262_144
"""The definition of a workflow, encoded as JSON."""

WORKFLOW_STEPS: Final = 500
"""The steps of a definition, and of one branch."""

WORKFLOW_BRANCHES: Final = 32
STEP_ID_CHARACTERS: Final = 100
RUN_STEPS: Final = 100_000
"""The steps that one run takes at most; a definition may have a lower bound."""

RUN_SIGNALS: Final = 100
"""The signals of a run that nothing waits for yet."""

STEPS_CLAIMED: Final = 100
"""The steps that one claim takes."""

STEP_SECONDS: Final = 31_536_000
"""The longest timer, and the longest time limit of a step or a wait: a year."""

STEP_WAIT_MAXIMUM_MS: Final = 60_000

WINDOW_MESSAGES: Final = 20_000
"""The messages that one window may be allowed to hold."""

WINDOW_WRITERS: Final = 100
"""The names and patterns in the writers of a resource."""

WINDOW_MESSAGE_BYTES: Final = 262_144
"""One message of a window, encoded as JSON."""

WINDOW_CONTEXT_BYTES: Final = 16_384
"""The variables from which a window's key is made."""

WINDOW_TEMPLATE_CHARACTERS: Final = 1_024
WINDOW_TOOL_CALLS: Final = 128
"""The tool calls of one message."""

WINDOW_OPEN_CALLS: Final = 256
"""The tool calls of one window that wait for their results; the oldest ones are forgotten."""

WINDOW_PATTERNS: Final = 32
WINDOW_PATTERN_CHARACTERS: Final = 512
"""One pattern of a resource's privacy rules."""

JSON_DEPTH: Final = 100
