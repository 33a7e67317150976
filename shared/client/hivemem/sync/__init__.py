"""Hivemem for programs without an event loop: the same methods, which wait for their results.

    import hivemem.sync

    with hivemem.sync.connect(agent="planner") as hive:
        session = hive.sessions.create(app_name="demo", user_id="alice")
        hive.sessions.append(session_id=session.session_id, event=hivemem.NewEvent(type="note", content="hello"))

        for change in hive.changes(hivemem.prefix("event", session.session_id), since="start"):
            print(change.version, change.value)
            break

A client works in a thread of its own, and any number of threads can use it at once. Its callbacks, such as `progress`,
are called in that thread, and cannot use the client themselves.
"""

from hivemem.sync.feed import BlockingFeed as Feed
from hivemem.sync.hive import BlockingHive as Hive
from hivemem.sync.hive import connect
from hivemem.sync.leases import BlockingLease as Lease
from hivemem.sync.pipeline import BlockingPipeline as Pipeline
from hivemem.sync.runner import BlockingRunner as Runner
from hivemem.sync.window import BlockingWindow as Window

__all__ = ["Feed", "Hive", "Lease", "Pipeline", "Runner", "Window", "connect"]
