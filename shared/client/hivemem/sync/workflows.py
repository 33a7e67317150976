"""Workflows for the synchronous client, without the running of steps, which are coroutines."""

from hivemem.sync.blocking import Blocking, blocking
from hivemem.workflows.service import Workflows


class BlockingWorkflows(Blocking[Workflows]):
    """Definitions and runs."""

    apply = blocking(Workflows.apply)
    show = blocking(Workflows.show)
    list = blocking(Workflows.list)
    start = blocking(Workflows.start)
    run = blocking(Workflows.run)
    runs = blocking(Workflows.runs)
    signal = blocking(Workflows.signal)
    cancel = blocking(Workflows.cancel)
    retry = blocking(Workflows.retry)
