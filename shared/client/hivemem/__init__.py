"""Hivemem: the shared memory of a fleet of AI agents.

    import hivemem

    async with hivemem.connect(agent="planner") as hive:
        session = await hive.sessions.create(app_name="demo", user_id="alice")
        await hive.sessions.append(session_id=session.session_id, event=hivemem.NewEvent(type="note", content="hello"))

        async for change in hive.changes(hivemem.prefix("event", session.session_id), since="start"):
            print(change.version, change.value)

`hivemem.Hive(…)` connects at its first use, and `hivemem.sync` has the same client for programs without an event loop.
The names imported here are the public interface. They are loaded at first use, so that the `hivemem` command starts
quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hivemem import sync as sync
    from hivemem.artifacts import OpenArtifact as OpenArtifact
    from hivemem.changes import Change as Change
    from hivemem.cursor import Cursor as Cursor
    from hivemem.dead import DeadLetter as DeadLetter
    from hivemem.dead import DeadLetters as DeadLetters
    from hivemem.dead import DeadPage as DeadPage
    from hivemem.feed import Feed as Feed
    from hivemem.feed import prefix as prefix
    from hivemem.feed_errors import FeedError as FeedError
    from hivemem.feed_errors import FeedRecreated as FeedRecreated
    from hivemem.feed_errors import FeedTruncated as FeedTruncated
    from hivemem.feed_errors import UnreadableChange as UnreadableChange
    from hivemem.hive import Hive as Hive
    from hivemem.hive import connect as connect
    from hivemem.importing import Imported as Imported
    from hivemem.leases import Lease as Lease
    from hivemem.leases import LeaseLost as LeaseLost
    from hivemem.options import CallOptions as CallOptions
    from hivemem.pipeline import Pipeline as Pipeline
    from hivemem.publishing import Receipt as Receipt
    from hivemem.received import OtherChange as OtherChange
    from hivemem.received import Received as Received
    from hivemem.runner import Runner as Runner
    from hivemem.runner_context import StepContext as StepContext
    from hivemem.runner_step import RunnerStep as RunnerStep
    from hivemem.transfer import Exported as Exported
    from hivemem.transfer import Progress as Progress
    from hivemem.window import Window as Window
    from hivemem.window_turns import WindowTurn as WindowTurn
    from hivemem.workflows.current_step import StepFailed as StepFailed
    from hivemem.workflows.declarations import Retry as Retry
    from hivemem.workflows.declarations import parallel as parallel
    from hivemem.workflows.declarations import sleep as sleep
    from hivemem.workflows.declarations import step as step
    from hivemem.workflows.declarations import wait_change as wait_change
    from hivemem.workflows.declarations import wait_signal as wait_signal
    from hivemem.workflows.workflow import Workflow as Workflow
    from hivemem_contracts.agents.models import Agent as Agent
    from hivemem_contracts.agents.models import AgentRecord as AgentRecord
    from hivemem_contracts.agents.models import Cycle as Cycle
    from hivemem_contracts.agents.models import Tool as Tool
    from hivemem_contracts.agents.models import WorkspaceCue as WorkspaceCue
    from hivemem_contracts.agents.workflows.definition import WorkflowDefinition as WorkflowDefinition
    from hivemem_contracts.agents.workflows.models import Run as Run
    from hivemem_contracts.agents.workflows.models import RunStep as RunStep
    from hivemem_contracts.artifacts.models import Artifact as Artifact
    from hivemem_contracts.artifacts.models import Upload as Upload
    from hivemem_contracts.errors import AlreadyExists as AlreadyExists
    from hivemem_contracts.errors import Forbidden as Forbidden
    from hivemem_contracts.errors import HiveError as HiveError
    from hivemem_contracts.errors import IdempotencyConflict as IdempotencyConflict
    from hivemem_contracts.errors import IllegalTransition as IllegalTransition
    from hivemem_contracts.errors import Internal as Internal
    from hivemem_contracts.errors import InvalidRequest as InvalidRequest
    from hivemem_contracts.errors import LeaseHeld as LeaseHeld
    from hivemem_contracts.errors import NotFound as NotFound
    from hivemem_contracts.errors import Overloaded as Overloaded
    from hivemem_contracts.errors import RevisionConflict as RevisionConflict
    from hivemem_contracts.errors import TooLarge as TooLarge
    from hivemem_contracts.errors import Unavailable as Unavailable
    from hivemem_contracts.identifiers import join_id as join_id
    from hivemem_contracts.identifiers import new_id as new_id
    from hivemem_contracts.identifiers import split_id as split_id
    from hivemem_contracts.memory.models import AuditEntry as AuditEntry
    from hivemem_contracts.memory.models import Difference as Difference
    from hivemem_contracts.memory.models import ErasureReceipt as ErasureReceipt
    from hivemem_contracts.memory.models import LeaseClaim as LeaseClaim
    from hivemem_contracts.memory.models import Memory as Memory
    from hivemem_contracts.memory.models import MemoryKey as MemoryKey
    from hivemem_contracts.memory.models import MemoryVersion as MemoryVersion
    from hivemem_contracts.memory.models import Source as Source
    from hivemem_contracts.memory.requests import DeleteMemory as DeleteMemory
    from hivemem_contracts.memory.requests import ImportedMemory as ImportedMemory
    from hivemem_contracts.memory.requests import PutMemory as PutMemory
    from hivemem_contracts.sessions.models import Event as Event
    from hivemem_contracts.sessions.models import Machine as Machine
    from hivemem_contracts.sessions.models import MachineState as MachineState
    from hivemem_contracts.sessions.models import NewEvent as NewEvent
    from hivemem_contracts.sessions.models import Origin as Origin
    from hivemem_contracts.sessions.models import Session as Session
    from hivemem_contracts.sessions.models import Status as Status
    from hivemem_contracts.sessions.models import Transition as Transition
    from hivemem_contracts.sessions.requests import AppendEvent as AppendEvent
    from hivemem_contracts.vectors.models import Degraded as Degraded
    from hivemem_contracts.vectors.models import IndexStatus as IndexStatus
    from hivemem_contracts.vectors.models import Recalled as Recalled
    from hivemem_contracts.vectors.models import RecallFilter as RecallFilter
    from hivemem_contracts.vectors.models import Scores as Scores
    from hivemem_contracts.vectors.models import Weights as Weights
    from hivemem_contracts.vectors.replies import RecallAnswer as RecallAnswer
    from hivemem_contracts.windows.models import Allocation as Allocation
    from hivemem_contracts.windows.models import DoNotPersist as DoNotPersist
    from hivemem_contracts.windows.models import Flushing as Flushing
    from hivemem_contracts.windows.models import Privacy as Privacy
    from hivemem_contracts.windows.models import RedactionRule as RedactionRule
    from hivemem_contracts.windows.models import StoredMessage as StoredMessage
    from hivemem_contracts.windows.models import WindowMessage as WindowMessage
    from hivemem_contracts.windows.models import WindowResource as WindowResource

_HOMES = {
    "hivemem.artifacts": ("OpenArtifact",),
    "hivemem.changes": ("Change",),
    "hivemem.cursor": ("Cursor",),
    "hivemem.dead": ("DeadLetter", "DeadLetters", "DeadPage"),
    "hivemem.feed": ("Feed", "prefix"),
    "hivemem.feed_errors": ("FeedError", "FeedRecreated", "FeedTruncated", "UnreadableChange"),
    "hivemem.hive": ("Hive", "connect"),
    "hivemem.importing": ("Imported",),
    "hivemem.leases": ("Lease", "LeaseLost"),
    "hivemem.options": ("CallOptions",),
    "hivemem.pipeline": ("Pipeline",),
    "hivemem.publishing": ("Receipt",),
    "hivemem.received": ("OtherChange", "Received"),
    "hivemem.runner": ("Runner",),
    "hivemem.runner_context": ("StepContext",),
    "hivemem.runner_step": ("RunnerStep",),
    "hivemem.transfer": ("Exported", "Progress"),
    "hivemem.workflows.current_step": ("StepFailed",),
    "hivemem.workflows.declarations": ("Retry", "parallel", "sleep", "step", "wait_change", "wait_signal"),
    "hivemem.workflows.workflow": ("Workflow",),
    "hivemem.window": ("Window",),
    "hivemem.window_turns": ("WindowTurn",),
    "hivemem_contracts.agents.models": ("Agent", "AgentRecord", "Cycle", "Tool", "WorkspaceCue"),
    "hivemem_contracts.agents.workflows.definition": ("WorkflowDefinition",),
    "hivemem_contracts.agents.workflows.models": ("Run", "RunStep"),
    "hivemem_contracts.artifacts.models": ("Artifact", "Upload"),
    "hivemem_contracts.errors": (
        "AlreadyExists",
        "Forbidden",
        "HiveError",
        "IdempotencyConflict",
        "IllegalTransition",
        "Internal",
        "InvalidRequest",
        "LeaseHeld",
        "NotFound",
        "Overloaded",
        "RevisionConflict",
        "TooLarge",
        "Unavailable",
    ),
    "hivemem_contracts.identifiers": ("join_id", "new_id", "split_id"),
    "hivemem_contracts.memory.models": (
        "AuditEntry",
        "Difference",
        "ErasureReceipt",
        "LeaseClaim",
        "Memory",
        "MemoryKey",
        "MemoryVersion",
        "Source",
    ),
    "hivemem_contracts.memory.requests": ("DeleteMemory", "ImportedMemory", "PutMemory"),
    "hivemem_contracts.sessions.models": (
        "Event",
        "Machine",
        "MachineState",
        "NewEvent",
        "Origin",
        "Session",
        "Status",
        "Transition",
    ),
    "hivemem_contracts.sessions.requests": ("AppendEvent",),
    "hivemem_contracts.vectors.models": ("Degraded", "IndexStatus", "RecallFilter", "Recalled", "Scores", "Weights"),
    "hivemem_contracts.vectors.replies": ("RecallAnswer",),
    "hivemem_contracts.windows.models": (
        "Allocation",
        "DoNotPersist",
        "Flushing",
        "Privacy",
        "RedactionRule",
        "StoredMessage",
        "WindowMessage",
        "WindowResource",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "sync":
        return import_module("hivemem.sync")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'hivemem' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*_HOME_OF, "sync"])
