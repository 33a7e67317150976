"""The rules of sessions. Each is a pure function of the current heads, a command and the time. It returns the
records to append or raises a refusal."""

from hivemem_sessions.decisions.apps import put_app
from hivemem_sessions.decisions.events import append_event
from hivemem_sessions.decisions.lifecycle import (
    begin_deletion,
    change_status,
    create_session,
    fork_session,
    update_session,
)
from hivemem_sessions.decisions.machines import put_machine
from hivemem_sessions.decisions.state import set_state

__all__ = [
    "append_event",
    "begin_deletion",
    "change_status",
    "create_session",
    "fork_session",
    "put_app",
    "put_machine",
    "set_state",
    "update_session",
]
