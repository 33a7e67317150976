"""The rules of steps: who may run one, and what its result does."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from hivemem_agents.workflows.decisions.definitions import Plan
from hivemem_agents.workflows.decisions.progress import FeedPlace, RunProgress, accepted
from hivemem_agents.workflows.decisions.runs import require_run, run_not_found
from hivemem_agents.workflows.entities import (
    ATTEMPTS,
    ENDED,
    ONCE,
    RUN,
    STEP,
    OnceResult,
    RunHead,
    StepExecution,
    once_place,
    step_place,
)
from hivemem_contracts.agents.workflows.requests import RecordOnce, RenewStep, ReportStep
from hivemem_contracts.errors import IllegalTransition, LeaseHeld, NotFound
from hivemem_contracts.limits import REPLY_BYTES
from hivemem_runtime.ledger.port import Append, Decided, Decision, Heads, value_of

ABANDONED: Final = 1_000
"""The attempts of a step after which no further process is given it."""

SESSION_STATE_BYTES: Final = 65_536
"""What a claim of several steps reckons with for the state of a session."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Who takes steps: the agent, the id of its request, and for how long in microseconds."""

    by: str
    id: str
    lease: int
    handlers: Collection[str] | None = None

    def wants(self, name: str) -> bool:
        return self.handlers is None or name in self.handlers


@dataclass(frozen=True, slots=True)
class Taken:
    """A claimed step with its run, for the answer; `undone` is the step that a compensation undoes."""

    step: StepExecution
    run: RunHead
    undone: StepExecution | None = None


class NothingLeft(Exception):
    """Others have taken the steps in the meantime."""


def number_of(token: int) -> int:
    """Return the number of the step that a token names."""
    return token // ATTEMPTS


def claim_steps(heads: Heads, places: Collection[str], claim: Claim, now: int) -> Decided:
    """Take the steps that can still be claimed, as many as an answer has room for. Raises `NothingLeft`."""
    found: list[StepExecution] = []
    room = REPLY_BYTES
    for step in (value_of(heads(STEP, place)) for place in places):
        if step is None or not claimable(step, now):
            continue
        room -= _bytes_of(taken(heads, step))
        if found and room < 0:
            break
        found.append(step)
    if not found:
        raise NothingLeft
    batch = [step.place for step in found] if len(found) > 1 else None
    steps = [_claimed(step, claim, now, batch) for step in found]
    return Decided([Append(STEP, step.place, step) for step in steps], [taken(heads, step) for step in steps])


def _bytes_of(one: Taken) -> int:
    """Return the approximate size of a claimed step in an answer; the state of a session is not known here."""
    state = SESSION_STATE_BYTES if one.run.session_id is not None else len(orjson.dumps(one.run.state))
    return state + len(orjson.dumps([one.run.input, None if one.undone is None else one.undone.output]))


def claimable(step: StepExecution, now: int) -> bool:
    return step.available_at is not None and step.available_at <= now


def taken(heads: Heads, step: StepExecution) -> Taken:
    undone = None if step.undoes is None else value_of(heads(STEP, step_place(step.run_id, step.undoes)))
    return Taken(step, require_run(heads, step.run_id), undone)


def report_step(heads: Heads, body: ReportStep, plan: Plan, claim: Claim, now: int, feed: FeedPlace | None) -> Decided:
    """Take the result of a step. The same report once more changes nothing."""
    step = _owned(heads, body, body.attempt)
    run = require_run(heads, body.run_id)
    if step.status != "running":
        if not step.reported:
            raise _ended(run, step)
        return Decided((), (step, run, None, True))
    step = replace(step, reported=True)
    progress = RunProgress(heads, plan, body.run_id, run, now, feed=feed)
    failed = body.error is not None
    if failed and _tries_again(plan, step, body):
        progress.fail_attempt(step, body.error)
    elif run.session_id is not None:
        status, result = ("failed", body.error) if failed else ("completed", body.output)
        progress.put(accepted(step, status, result, now))
    elif failed:
        progress.fail_attempt(step, body.error, final=True)
    else:
        progress.complete(step, body.output)
    return _with_next(heads, progress, step.number, claim if body.claim_next else None, now)


def settle_step(
    heads: Heads,
    run_id: str,
    number: int,
    plan: Plan,
    claim: Claim | None,
    now: int,
    *,
    state: dict[str, Any] | None,
    failure: Any,
    feed: FeedPlace | None,
) -> Decided:
    """Go on with the run of a session, which has the result of a step now, or cannot take it: a `failure`."""
    run = require_run(heads, run_id)
    step = value_of(heads(STEP, step_place(run_id, number)))
    if step is None or step.accepted is None or run.status in ENDED:
        return Decided((), None)
    progress = RunProgress(heads, plan, run_id, run, now, state=state, feed=feed)
    result = step.accepted["result"]
    if failure is not None and step.kind != "compensation":
        progress.fail(step, failure)
    elif step.accepted["status"] == "failed":
        progress.fail(step, result)
    else:
        progress.complete(step, result, result if step.kind == "wait" else None)
    return _with_next(heads, progress, number, claim, now)


def act_on_time(
    heads: Heads,
    run_id: str,
    number: int,
    plan: Plan,
    now: int,
    *,
    state: dict[str, Any] | None,
    failure: Any,
    feed: FeedPlace | None,
) -> Decision:
    """Act on a step whose time has come: a timer, the limit of a wait or of an attempt."""
    run = value_of(heads(RUN, run_id))
    step = value_of(heads(STEP, step_place(run_id, number)))
    if run is None or step is None or step.accepted is not None or step.due_at is None or step.due_at > now:
        return ()
    progress = RunProgress(heads, plan, run_id, run, now, state=state, feed=feed)
    if failure is not None and step.kind in ("sleep", "wait"):
        progress.fail(step, failure)
        return progress.appends()
    if step.kind == "sleep":
        progress.complete(step, None)
        return progress.appends()
    if step.kind == "wait":
        wait = plan.steps[step.id].declared.wait
        limit = None if wait is None else wait.on_timeout
        error = {"name": "WaitTimedOut", "detail": f"step {step.id!r} waited until its time limit"}
        if limit is not None:
            progress.complete(step, None, None, limit)
            return progress.appends()
    else:
        error = {"name": "AttemptTimedOut", "detail": f"attempt {step.attempt} of step {step.id!r} took too long"}
        if _attempts_left(plan, step) and step.attempt < ABANDONED:
            progress.fail_attempt(step, error)
            return progress.appends()
    if run.session_id is not None:
        progress.put(accepted(step, "failed", error, now))
    else:
        progress.fail(step, error)
    return progress.appends()


def see_change(
    heads: Heads, run_id: str, number: int, plan: Plan, value: Any, now: int, feed: FeedPlace | None
) -> Decision:
    """End a wait with the change that it waited for."""
    run = value_of(heads(RUN, run_id))
    step = value_of(heads(STEP, step_place(run_id, number)))
    if run is None or step is None or step.status != "waiting":
        return ()
    progress = RunProgress(heads, plan, run_id, run, now, feed=feed)
    progress.receive(step, value)
    return progress.appends()


def renew_step(heads: Heads, body: RenewStep, now: int) -> Decision:
    step = _owned(heads, body, body.attempt)
    if step.status != "running":
        raise _ended(require_run(heads, body.run_id), step)
    until = now + body.lease * 1_000
    if step.deadline is not None and step.deadline <= until:
        renewed = replace(step, until=step.deadline, available_at=None)
    else:
        renewed = replace(step, until=until, available_at=until)
    return [Append(STEP, step.place, renewed)]


def record_once(heads: Heads, body: RecordOnce) -> Decided:
    """Keep the first result under a key; an attempt that is over may still bring it, because its effect happened."""
    number, attempt = divmod(body.token, ATTEMPTS)
    step = value_of(heads(STEP, step_place(body.run_id, number)))
    if step is None or step.id != body.step or not 1 <= attempt <= step.attempt:
        raise _no_step(heads, body)
    id = once_place(body.run_id, number, body.key)
    known = value_of(heads(ONCE, id))
    if known is not None:
        return Decided((), known)
    if "result" not in body.model_fields_set:
        return Decided((), None)
    recorded = OnceResult(body.result)
    return Decided([Append(ONCE, id, recorded)], recorded)


def _with_next(heads: Heads, progress: RunProgress, number: int, claim: Claim | None, now: int) -> Decided:
    following = None
    for new in progress.begun if claim is not None else ():
        step = progress.step(new)
        if claim is not None and claim.wants(step.name) and claimable(step, now):
            following = progress.put(_claimed(step, claim, now, None))
            break
    appends = progress.appends()
    undone = None if following is None or following.undoes is None else progress.step(following.undoes)
    claimed = None if following is None else Taken(following, progress.run, undone)
    return Decided(appends, (progress.step(number), progress.run, claimed, False))


def _claimed(step: StepExecution, claim: Claim, now: int, batch: list[str] | None) -> StepExecution:
    until = now + claim.lease
    deadline = None if step.timeout is None else now + step.timeout
    attempt = step.attempt + 1
    if attempt >= ABANDONED:
        deadline = min(until, deadline or until)
    ends = until if deadline is None else min(until, deadline)
    return replace(
        step,
        status="running",
        attempt=attempt,
        reported=False,
        claimed_by=claim.by,
        claim=claim.id,
        batch=batch,
        until=ends,
        deadline=deadline,
        available_at=None if deadline is not None and deadline <= until else until,
        due_at=deadline,
        started_at=step.started_at or now,
    )


def _owned(heads: Heads, body: ReportStep | RenewStep, attempt: int) -> StepExecution:
    """Return the step that a token names. Raises `LeaseHeld` for the token of an earlier attempt."""
    step = value_of(heads(STEP, step_place(body.run_id, number_of(body.token))))
    if step is None or step.id != body.step or body.token % ATTEMPTS != attempt:
        raise _no_step(heads, body)
    if step.attempt != attempt:
        if attempt > step.attempt:
            raise _no_step(heads, body)
        raise LeaseHeld(
            f"token: step {step.id!r} of run {body.run_id!r} is in attempt {step.attempt}, attempt {attempt} is over",
            holder=step.claimed_by,
            token=step.token,
            attempt=step.attempt,
        )
    return step


def _no_step(heads: Heads, body: ReportStep | RenewStep | RecordOnce) -> NotFound:
    if value_of(heads(RUN, body.run_id)) is None:
        return run_not_found(body.run_id)
    detail = f"run {body.run_id!r} has not given token {body.token} for step {body.step!r}"
    return NotFound(detail, run_id=body.run_id, step=body.step)


def _ended(run: RunHead, step: StepExecution) -> IllegalTransition:
    detail = f"step {step.id!r} of run {step.run_id!r} is {step.status}, and the run is {run.status}"
    return IllegalTransition(detail, status=run.status, allowed=[])


def _tries_again(plan: Plan, step: StepExecution, body: ReportStep) -> bool:
    return not body.final and _attempts_left(plan, step)


def _attempts_left(plan: Plan, step: StepExecution) -> bool:
    policy = plan.steps[step.id].declared.retry
    return policy is not None and step.failures + 1 < policy.attempts
