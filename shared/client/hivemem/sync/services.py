"""The methods of each service for the synchronous client, generated from the contracts by `make docs`."""

from hivemem.services.agents import AgentsOperations
from hivemem.services.artifacts import ArtifactsOperations
from hivemem.services.memory import MemoryOperations
from hivemem.services.sessions import SessionsOperations
from hivemem.services.vectors import VectorsOperations
from hivemem.services.windows import WindowsOperations
from hivemem.sync.blocking import Blocking, blocking, blocking_command


class BlockingSessionsOperations(Blocking[SessionsOperations]):
    """Sessions: events and state, statuses, state machines."""

    create = blocking_command(SessionsOperations.create)
    get = blocking(SessionsOperations.get)
    append = blocking_command(SessionsOperations.append)
    append_batch = blocking_command(SessionsOperations.append_batch)
    events = blocking(SessionsOperations.events)
    state_get = blocking(SessionsOperations.state_get)
    state_set = blocking_command(SessionsOperations.state_set)
    update = blocking_command(SessionsOperations.update)
    set_status = blocking_command(SessionsOperations.set_status)
    terminate = blocking_command(SessionsOperations.terminate)
    archive = blocking_command(SessionsOperations.archive)
    delete = blocking_command(SessionsOperations.delete)
    fork = blocking_command(SessionsOperations.fork)
    shared = blocking(SessionsOperations.shared)
    list = blocking(SessionsOperations.list)
    app_put = blocking_command(SessionsOperations.app_put)
    app_get = blocking(SessionsOperations.app_get)
    machine_put = blocking_command(SessionsOperations.machine_put)
    machine_get = blocking(SessionsOperations.machine_get)


class BlockingMemoryOperations(Blocking[MemoryOperations]):
    """Memories: versioned values in namespaces, with history, leases and an audit."""

    put = blocking_command(MemoryOperations.put)
    patch = blocking_command(MemoryOperations.patch)
    put_batch = blocking_command(MemoryOperations.put_batch)
    get = blocking(MemoryOperations.get)
    get_many = blocking(MemoryOperations.get_many)
    delete = blocking_command(MemoryOperations.delete)
    delete_batch = blocking_command(MemoryOperations.delete_batch)
    restore = blocking_command(MemoryOperations.restore)
    history = blocking(MemoryOperations.history)
    list = blocking(MemoryOperations.list)
    count = blocking(MemoryOperations.count)
    namespaces = blocking(MemoryOperations.namespaces)
    snapshot = blocking(MemoryOperations.snapshot)
    diff = blocking(MemoryOperations.diff)
    fork = blocking_command(MemoryOperations.fork)
    lease = blocking_command(MemoryOperations.lease)
    renew = blocking_command(MemoryOperations.renew)
    release = blocking_command(MemoryOperations.release)
    audit = blocking(MemoryOperations.audit)
    audit_verify = blocking(MemoryOperations.audit_verify)
    erase = blocking_command(MemoryOperations.erase)
    erasure = blocking(MemoryOperations.erasure)
    erase_confirm = blocking_command(MemoryOperations.erase_confirm)
    export = blocking(MemoryOperations.export)
    import_ = blocking_command(MemoryOperations.import_)


class BlockingArtifactsOperations(Blocking[ArtifactsOperations]):
    """Artifacts: files of a session, versioned, of any size, and workspaces, folders as a whole."""

    save = blocking_command(ArtifactsOperations.save)
    begin = blocking_command(ArtifactsOperations.begin)
    resume = blocking_command(ArtifactsOperations.resume)
    commit = blocking_command(ArtifactsOperations.commit)
    abort = blocking_command(ArtifactsOperations.abort)
    get = blocking(ArtifactsOperations.get)
    stat = blocking(ArtifactsOperations.stat)
    list = blocking(ArtifactsOperations.list)
    versions = blocking(ArtifactsOperations.versions)
    delete = blocking_command(ArtifactsOperations.delete)
    manifest = blocking(ArtifactsOperations.manifest)
    gc = blocking_command(ArtifactsOperations.gc)
    workspace_check = blocking(ArtifactsOperations.workspace_check)
    workspace_save = blocking_command(ArtifactsOperations.workspace_save)
    workspace_commit = blocking_command(ArtifactsOperations.workspace_commit)
    workspace_get = blocking(ArtifactsOperations.workspace_get)
    workspace_versions = blocking(ArtifactsOperations.workspace_versions)
    workspace_list = blocking(ArtifactsOperations.workspace_list)
    workspace_diff = blocking(ArtifactsOperations.workspace_diff)
    workspace_delete = blocking_command(ArtifactsOperations.workspace_delete)


class BlockingVectorsOperations(Blocking[VectorsOperations]):
    """Vectors: memories found by meaning, and an index of one's own."""

    recall = blocking(VectorsOperations.recall)
    store = blocking_command(VectorsOperations.store)
    query = blocking(VectorsOperations.query)
    delete = blocking_command(VectorsOperations.delete)
    status = blocking(VectorsOperations.status)
    overview = blocking(VectorsOperations.overview)
    sweep = blocking_command(VectorsOperations.sweep)


class BlockingAgentsOperations(Blocking[AgentsOperations]):
    """Agents: their cycles of proposal and result, their records, and workflows."""

    register = blocking_command(AgentsOperations.register)
    get = blocking(AgentsOperations.get)
    list = blocking(AgentsOperations.list)
    set_status = blocking_command(AgentsOperations.set_status)
    cycle_begin = blocking_command(AgentsOperations.cycle_begin)
    propose = blocking_command(AgentsOperations.propose)
    complete = blocking_command(AgentsOperations.complete)
    abandon = blocking_command(AgentsOperations.abandon)
    resume = blocking(AgentsOperations.resume)
    cycle = blocking(AgentsOperations.cycle)
    cycles = blocking(AgentsOperations.cycles)
    record = blocking_command(AgentsOperations.record)
    records = blocking(AgentsOperations.records)
    recall = blocking(AgentsOperations.recall)
    prune = blocking_command(AgentsOperations.prune)
    trace = blocking(AgentsOperations.trace)
    trace_import = blocking_command(AgentsOperations.trace_import)
    workflow_put = blocking_command(AgentsOperations.workflow_put)
    workflow_get = blocking(AgentsOperations.workflow_get)
    workflows = blocking(AgentsOperations.workflows)
    run_start = blocking_command(AgentsOperations.run_start)
    run_get = blocking(AgentsOperations.run_get)
    runs = blocking(AgentsOperations.runs)
    run_cancel = blocking_command(AgentsOperations.run_cancel)
    run_signal = blocking_command(AgentsOperations.run_signal)
    run_retry = blocking_command(AgentsOperations.run_retry)
    step_claim = blocking_command(AgentsOperations.step_claim)
    step_report = blocking_command(AgentsOperations.step_report)
    step_renew = blocking_command(AgentsOperations.step_renew)
    step_once = blocking_command(AgentsOperations.step_once)


class BlockingWindowsOperations(Blocking[WindowsOperations]):
    """Windows: conversations that agents share, within a budget of tokens."""

    resource_put = blocking_command(WindowsOperations.resource_put)
    resource_get = blocking(WindowsOperations.resource_get)
    resource_list = blocking(WindowsOperations.resource_list)
    resource_delete = blocking_command(WindowsOperations.resource_delete)
    append = blocking_command(WindowsOperations.append)
    append_many = blocking_command(WindowsOperations.append_many)
    read = blocking(WindowsOperations.read)
    write = blocking_command(WindowsOperations.write)
    delete = blocking_command(WindowsOperations.delete)
    clear = blocking_command(WindowsOperations.clear)
    originals = blocking(WindowsOperations.originals)
    flush = blocking_command(WindowsOperations.flush)
    health = blocking(WindowsOperations.health)
    stats = blocking(WindowsOperations.stats)
    windows = blocking(WindowsOperations.windows)
