"""The operations of the sessions service. A write commits a decision; a read asks an index."""

from hivemem_runtime.service import Service
from hivemem_sessions.endpoints import apps, events, forks, lifecycle, machines, session_list, state
from hivemem_sessions.endpoints.deletion import SessionEraser


def bind(service: Service, eraser: SessionEraser) -> None:
    lifecycle.bind(service, eraser)
    session_list.bind(service)
    events.bind(service)
    state.bind(service)
    machines.bind(service)
    forks.bind(service)
    apps.bind(service)
