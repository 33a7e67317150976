"""The rules: pure functions from the newest heads, a command and the time to what is appended, or a refusal."""

from hivemem_sessions.decisions.appending import append_event
from hivemem_sessions.decisions.lifecycle import begin_deletion, change_status, create_session, fork_session
from hivemem_sessions.decisions.machines import put_machine
from hivemem_sessions.decisions.state import set_state

__all__ = [
    "append_event",
    "begin_deletion",
    "change_status",
    "create_session",
    "fork_session",
    "put_machine",
    "set_state",
]
