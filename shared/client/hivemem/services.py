"""The services of the fleet. Each line is an operation; its fields, reply and errors stand in the registry."""

from hivemem.methods import Command, Query, ServiceMethods
from hivemem_contracts.sessions import operations as sessions


class Sessions(ServiceMethods):
    """Sessions: events and state, statuses, state machines."""

    create = Command(sessions.CREATE)
    get = Query(sessions.GET)
    append = Command(sessions.APPEND)
    append_batch = Command(sessions.APPEND_BATCH)
    events = Query(sessions.EVENTS)
    state_get = Query(sessions.STATE_GET)
    state_set = Command(sessions.STATE_SET)
    set_status = Command(sessions.SET_STATUS)
    terminate = Command(sessions.TERMINATE)
    archive = Command(sessions.ARCHIVE)
    delete = Command(sessions.DELETE)
    fork = Command(sessions.FORK)
    list = Query(sessions.LIST)
    machine_put = Command(sessions.MACHINE_PUT)
    machine_get = Query(sessions.MACHINE_GET)
