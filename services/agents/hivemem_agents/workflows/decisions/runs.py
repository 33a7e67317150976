"""The rules of runs: starting, cancelling, signals and retries."""

from dataclasses import replace
from typing import Any

import orjson

from hivemem_agents.workflows.decisions.definitions import Plan
from hivemem_agents.workflows.decisions.progress import FeedPlace, RunProgress
from hivemem_agents.workflows.entities import ENDED, RUN, RunHead
from hivemem_contracts.agents.workflows.requests import SignalRun, StartRun
from hivemem_contracts.errors import AlreadyExists, IllegalTransition, InvalidRequest, NotFound
from hivemem_contracts.limits import RUN_SIGNALS, STATE_BYTES
from hivemem_contracts.nearest_name import suggestion
from hivemem_contracts.sizes import check_size
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of


def run_not_found(run_id: str) -> NotFound:
    return NotFound(f"run {run_id!r} does not exist", run_id=run_id)


def require_run(heads: Heads, run_id: str) -> RunHead:
    run = value_of(heads(RUN, run_id))
    if run is None:
        raise run_not_found(run_id)
    return run


def start_run(
    heads: Heads,
    body: StartRun,
    run_id: str,
    plan: Plan,
    version: int,
    sender: str,
    now: int,
    *,
    state: dict[str, Any] | None,
    feed: FeedPlace | None,
) -> Decision:
    if heads(RUN, run_id) is not None:
        raise AlreadyExists(f"run {run_id!r} exists already", run_id=run_id)
    run = RunHead(body.name, version, "running", body.input, {}, body.session_id, sender, now, now)
    progress = RunProgress(heads, plan, run_id, run, now, state=state, feed=feed, new=True)
    progress.begin(plan.first)
    return progress.appends()


def cancel_run(heads: Heads, run_id: str, plan: Plan, now: int) -> Decision:
    run = require_run(heads, run_id)
    if run.status == "cancelled":
        return ()
    _require_open(run_id, run, "it cannot be cancelled")
    progress = RunProgress(heads, plan, run_id, run, now)
    progress.cancel()
    return progress.appends()


def signal_run(heads: Heads, body: SignalRun, plan: Plan, now: int, feed: FeedPlace | None) -> Decision:
    """Give a signal to the step that waits for it the longest, or keep it until one does."""
    run = require_run(heads, body.run_id)
    _require_open(body.run_id, run, "it takes no signals")
    progress = RunProgress(heads, plan, body.run_id, run, now, feed=feed)
    waiting = (step for step in progress.active() if step.status == "waiting" and step.signal == body.name)
    first = next(waiting, None)
    if first is not None:
        progress.receive(first, body.data)
        return progress.appends()
    kept = [*run.signals, {"name": body.name, "data": body.data}]
    if len(kept) > RUN_SIGNALS:
        raise IllegalTransition(
            f"run {body.run_id!r} has {RUN_SIGNALS} signals that no step has waited for", status=run.status, allowed=[]
        )
    check_size("signals of the run", len(orjson.dumps(kept)), STATE_BYTES)
    return [Append(RUN, body.run_id, replace(run, signals=kept, updated_at=now))]


def retry_run(
    heads: Heads,
    run_id: str,
    step_id: str | None,
    plan: Plan,
    now: int,
    *,
    state: dict[str, Any] | None,
    feed: FeedPlace | None,
) -> Decision:
    run = require_run(heads, run_id)
    if run.status not in ENDED or run.status == "completed":
        raise IllegalTransition(
            f"run {run_id!r} is {run.status}: only a run that failed or was cancelled is retried",
            status=run.status,
            allowed=[],
        )
    target = step_id or (plan.first if run.status == "compensated" else run.stopped_at) or plan.first
    found = plan.steps.get(target)
    if found is None or found.top != target:
        known = [id for id, step in plan.steps.items() if step.top == id]
        why = "is in a branch" if found else f"is no step of workflow {run.name!r}{suggestion(target, known)}"
        raise InvalidRequest(f"step: {target!r} {why}", field="step")
    progress = RunProgress(heads, plan, run_id, run, now, state=state, feed=feed)
    progress.retry(target)
    return progress.appends()


def _require_open(run_id: str, run: RunHead, why: str) -> None:
    if run.status in ENDED:
        raise IllegalTransition(f"run {run_id!r} is {run.status}: {why}", status=run.status, allowed=[])
