"""The operations of each service as typed methods, generated from the contracts by `make docs`."""

from hivemem.methods import Command, Query, ServiceMethods
from hivemem_contracts.artifacts import operations as artifacts
from hivemem_contracts.memory import operations as memory
from hivemem_contracts.sessions import operations as sessions
from hivemem_contracts.vectors import operations as vectors


class Sessions(ServiceMethods):
    """Sessions: events and state, statuses, state machines."""

    create = Command(sessions.CREATE)
    get = Query(sessions.GET)
    append = Command(sessions.APPEND)
    append_batch = Command(sessions.APPEND_BATCH)
    events = Query(sessions.EVENTS)
    state_get = Query(sessions.STATE_GET)
    state_set = Command(sessions.STATE_SET)
    update = Command(sessions.UPDATE)
    set_status = Command(sessions.SET_STATUS)
    terminate = Command(sessions.TERMINATE)
    archive = Command(sessions.ARCHIVE)
    delete = Command(sessions.DELETE)
    fork = Command(sessions.FORK)
    list = Query(sessions.LIST)
    app_put = Command(sessions.APP_PUT)
    app_get = Query(sessions.APP_GET)
    machine_put = Command(sessions.MACHINE_PUT)
    machine_get = Query(sessions.MACHINE_GET)


class Memory(ServiceMethods):
    """Memories: versioned values in namespaces, with history, leases and an audit."""

    put = Command(memory.PUT)
    patch = Command(memory.PATCH)
    put_batch = Command(memory.PUT_BATCH)
    get = Query(memory.GET)
    get_many = Query(memory.GET_MANY)
    delete = Command(memory.DELETE)
    delete_batch = Command(memory.DELETE_BATCH)
    restore = Command(memory.RESTORE)
    history = Query(memory.HISTORY)
    list = Query(memory.LIST)
    count = Query(memory.COUNT)
    namespaces = Query(memory.NAMESPACES)
    snapshot = Query(memory.SNAPSHOT)
    diff = Query(memory.DIFF)
    fork = Command(memory.FORK)
    lease = Command(memory.LEASE)
    renew = Command(memory.RENEW)
    release = Command(memory.RELEASE)
    audit = Query(memory.AUDIT)
    audit_verify = Query(memory.AUDIT_VERIFY)
    erase = Command(memory.ERASE)
    erasure = Query(memory.ERASURE)
    erase_confirm = Command(memory.ERASE_CONFIRM)
    export = Query(memory.EXPORT)
    import_ = Command(memory.IMPORT)


class ArtifactsOperations(ServiceMethods):
    """Artifacts: files of a session, versioned, of any size."""

    save = Command(artifacts.SAVE)
    begin = Command(artifacts.BEGIN)
    resume = Command(artifacts.RESUME)
    commit = Command(artifacts.COMMIT)
    abort = Command(artifacts.ABORT)
    get = Query(artifacts.GET)
    stat = Query(artifacts.STAT)
    list = Query(artifacts.LIST)
    versions = Query(artifacts.VERSIONS)
    delete = Command(artifacts.DELETE)
    manifest = Query(artifacts.MANIFEST)
    gc = Command(artifacts.GC)


class VectorsOperations(ServiceMethods):
    """Vectors: memories found by meaning, and an index of one's own."""

    recall = Query(vectors.RECALL)
    store = Command(vectors.STORE)
    query = Query(vectors.QUERY)
    delete = Command(vectors.DELETE)
    status = Query(vectors.STATUS)
    overview = Query(vectors.OVERVIEW)
    sweep = Command(vectors.SWEEP)
