"""How a run goes on: the steps that begin when one ends, until the run ends.

Everything that one commit changes is collected here. Heads are values, so each change makes new ones.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from hivemem_agents.workflows.decisions.conditions import StepBroken, holds
from hivemem_agents.workflows.decisions.definitions import Plan, PlannedStep
from hivemem_agents.workflows.entities import (
    ENDED,
    RUN,
    RUN_EVENT,
    STEP,
    RunEvent,
    RunHead,
    StepExecution,
    run_fields,
    step_place,
)
from hivemem_contracts.agents.workflows.definition import END, RetryPolicy
from hivemem_contracts.limits import STATE_BYTES
from hivemem_runtime.expressions.budget import Meter
from hivemem_runtime.ledger.port import Append, Heads, value_of

SECOND: Final = 1_000_000
PASSED_AT_ONCE: Final = 1_000
"""The steps that one commit begins: a loop of steps that are skipped has to end."""
_ONCE: Final = RetryPolicy(attempts=1)


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """How far the feed was when a step began: a wait for a change begins there."""

    identity: str
    sequence: int


class RunProgress:
    """A run within one commit. `state` is that of its session, if it has one."""

    def __init__(
        self,
        heads: Heads,
        plan: Plan,
        run_id: str,
        run: RunHead,
        now: int,
        *,
        state: dict[str, Any] | None = None,
        feed: FeedPlace | None = None,
        new: bool = False,
    ) -> None:
        self.run_id = run_id
        self.run = run
        self.begun: list[int] = []
        """The numbers of the tasks that this commit made ready."""
        self._heads = heads
        self._plan = plan
        self._now = now
        self._before = None if new else run.status
        self._given = state
        self._feed = feed
        self._steps: dict[int, StepExecution] = {}
        self._meter = Meter()
        self._passed = 0
        self._coming: list[tuple[str | None, int | None, int | None]] = []
        """The targets to enter, each with its parallel step and branch; the last one is the next."""

    @property
    def state(self) -> dict[str, Any]:
        return self.run.state if self._given is None else self._given

    def step(self, number: int) -> StepExecution:
        found = self._steps.get(number) or value_of(self._heads(STEP, step_place(self.run_id, number)))
        assert found is not None, "a step of a run is never erased"
        return found

    def active(self) -> list[StepExecution]:
        return [self.step(number) for number in self.run.active]

    def put(self, step: StepExecution) -> StepExecution:
        self._steps[step.number] = step
        return step

    def begin(self, step_id: str) -> None:
        """Begin a step of the run itself, and what follows if it is skipped."""
        with self._going_on():
            self._coming.append((step_id, None, None))

    def complete(self, step: StepExecution, output: Any, signal: Any = None, target: str | None = None) -> None:
        """End a step with its output, and go on; `target` is where, if that is decided already."""
        with self._going_on():
            self._complete(step, output, signal, target)

    def receive(self, step: StepExecution, data: Any) -> None:
        """End a wait with what it waited for. The run of a session goes on once its session has it."""
        with self._going_on():
            self._receive(step, data)

    def fail_attempt(self, step: StepExecution, error: Any, *, final: bool = False) -> None:
        """End an attempt: there will be another one after a pause, or the step fails."""
        failures = step.failures + 1
        policy = self._plan.steps[step.id].declared.retry or _ONCE
        if final or failures >= policy.attempts:
            self.fail(replace(step, failures=failures), error)
            return
        pause = min(policy.delay_seconds * policy.factor ** min(failures - 1, 64), policy.max_delay_seconds)
        at = self._now + int(pause * SECOND)
        self.put(released(replace(step, failures=failures, error=error), at))

    def fail(self, step: StepExecution, error: Any) -> None:
        """End a step without success, and with it the run."""
        self._close(step, "failed", error=error)
        if step.kind == "compensation":
            undoing = {"step": step.id, "error": error}
            self.run = replace(self.run, error={**(self.run.error or {}), "compensation": undoing})
            self._end("failed")
        else:
            self._stop(step.id, error)

    def cancel(self) -> None:
        stopped = next((self._plan.steps[step.id].top for step in self.active()), None)
        self._cancel_active()
        self.run = replace(self.run, stopped_at=self.run.stopped_at or stopped)
        self._end("cancelled")

    def retry(self, step_id: str) -> None:
        fresh = replace(self.run, status="running", error=None, stopped_at=None, finished_at=None, compensating=False)
        self.run = replace(fresh, undo=None if self.run.status == "compensated" else self.run.undo, undone=0, visits={})
        self.begin(step_id)

    def appends(self) -> list[Append[Any, Any]]:
        """Return the records of the commit, that of the run first."""
        run = self.run
        if run.status not in ENDED:
            waits = [step.status == "waiting" for step in self.active() if step.kind != "parallel"]
            run = replace(run, status="waiting" if waits and all(waits) else "running")
        run = self.run = replace(run, updated_at=self._now)
        told = [] if run.status == self._before else _told(self._before, run.status)
        return [
            Append(RUN, self.run_id, run),
            *(Append(STEP, step.place, step) for step in self._steps.values()),
            *(Append(RUN_EVENT, self.run_id, RunEvent(word, run_fields(self.run_id, run))) for word in told),
        ]

    @contextmanager
    def _going_on(self) -> Generator[None]:
        """Enter what comes next, in a loop: a chain of steps that end at once is longer than the stack allows."""
        try:
            yield
            while self._coming:
                step_id, parent, branch = self._coming.pop()
                # A parallel step that was joined already has no further branches.
                if parent is None or parent in self.run.active:
                    self._enter(step_id, parent, branch)
        except StepBroken as broken:
            self._coming.clear()
            self._stop(broken.step, broken.error)

    def _complete(self, step: StepExecution, output: Any, signal: Any, target: str | None = None) -> None:
        done = self._close(step, "completed", output=output)
        if step.kind == "compensation":
            self._undo_next()
            return
        planned = self._plan.steps[step.id]
        save = planned.declared.save
        if save is not None and self._given is None:
            self._save(step.id, save, output)
        if planned.declared.compensate is not None:
            self.put(replace(done, undo=self.run.undo))
            self.run = replace(self.run, undo=step.number)
        self._coming.append((target or self._after(planned, output, signal), step.parent, step.branch))

    def _receive(self, step: StepExecution, data: Any) -> None:
        if self.run.session_id is None:
            self._complete(step, data, data)
        else:
            self.put(accepted(step, "completed", data, self._now))

    def _enter(self, step_id: str | None, parent: int | None, branch: int | None) -> None:
        if step_id is None or step_id == END:
            self._leave(parent, branch)
            return
        planned = self._plan.steps[step_id]
        step = self._visit(planned, parent, branch)
        declared = planned.declared
        if declared.when is not None and not self._holds(step, declared.when):
            self.put(replace(step, status="skipped", finished_at=self._now))
            self._coming.append((planned.following, parent, branch))
            return
        self.run = replace(self.run, active=[*self.run.active, step.number])
        if declared.wait is not None and declared.wait.signal is not None:
            kept = self._take_signal(declared.wait.signal)
            if kept is not None:
                waited = replace(step, kind="wait", status="waiting", signal=declared.wait.signal)
                self._receive(self.put(waited), kept["data"])
                return
        self._start(planned, step)

    def _visit(self, planned: PlannedStep, parent: int | None, branch: int | None) -> StepExecution:
        visits = self.run.visits or {}
        visit, number = visits.get(planned.id, 0) + 1, self.run.steps + 1
        self._passed += 1
        if visit > planned.declared.max_visits:
            detail = f"step {planned.id!r} was visited {visit - 1} times, which is its max_visits"
            raise StepBroken(planned.id, "StepLimit", detail)
        if number > self._plan.max_steps:
            raise StepBroken(planned.id, "StepLimit", f"the run took {number - 1} steps, which is its max_steps")
        if self._passed > PASSED_AT_ONCE:
            detail = f"the run passed over {PASSED_AT_ONCE} steps at once, and none of them had anything to do"
            raise StepBroken(planned.id, "StepLimit", detail)
        self.run = replace(self.run, steps=number, visits={**visits, planned.id: visit})
        name = planned.declared.run or planned.id
        return StepExecution(
            self.run_id,
            number,
            self.run.name,
            planned.id,
            name,
            "task",
            visit,
            "pending",
            self._now,
            branch=branch,
            parent=parent,
        )

    def _start(self, planned: PlannedStep, step: StepExecution) -> None:
        declared = planned.declared
        if planned.branches:
            self._split(planned, self.put(replace(step, kind="parallel", status="waiting", started_at=self._now)))
        elif declared.sleep_seconds is not None:
            due = self._now + int(declared.sleep_seconds * SECOND)
            self.put(replace(step, kind="sleep", status="waiting", until=due, due_at=due, started_at=self._now))
        elif declared.wait is not None:
            wait = declared.wait
            limit = None if wait.timeout_seconds is None else self._now + int(wait.timeout_seconds * SECOND)
            waiting = replace(step, kind="wait", status="waiting", until=limit, due_at=limit, started_at=self._now)
            if wait.change is not None:
                place = self._feed or FeedPlace("", 0)
                waiting = replace(waiting, change=wait.change, feed=place.identity, after=place.sequence)
            self.put(replace(waiting, signal=wait.signal))
        else:
            limit = None if declared.timeout_seconds is None else int(declared.timeout_seconds * SECOND)
            self.put(replace(step, timeout=limit, available_at=self._now))
            self.begun.append(step.number)

    def _split(self, planned: PlannedStep, parent: StepExecution) -> None:
        self.put(replace(parent, left=len(planned.branches)))
        firsts = [(steps[0].id, parent.number, branch) for branch, steps in enumerate(planned.branches)]
        self._coming += reversed(firsts)

    def _leave(self, parent: int | None, branch: int | None) -> None:
        """Come to the end of the run, or of a branch."""
        if parent is None:
            self._end("completed")
            return
        joining = self.step(parent)
        left = joining.left - 1
        self.put(replace(joining, left=left))
        planned = self._plan.steps[joining.id]
        any_of_them = getattr(planned.declared, "join", "all") == "any"
        if left and not any_of_them:
            return
        for step in self.active():
            if step.parent == parent:
                self._close(step, "cancelled")
        self._complete(self.step(parent), {"branch": branch} if any_of_them else None, None)

    def _save(self, step_id: str, key: str, output: Any) -> None:
        state = {**self.run.state, key: output}
        size = len(orjson.dumps(state))
        if size > STATE_BYTES:
            raise StepBroken(step_id, "TooLarge", f"with {key!r} the state has {size} bytes, {STATE_BYTES} at most")
        self.run = replace(self.run, state=state)

    def _after(self, planned: PlannedStep, output: Any, signal: Any) -> str | None:
        variables = {"state": self.state, "input": self.run.input, "output": output, "signal": signal}
        for target in planned.declared.next or ():
            if target.when is None or holds(planned.id, target.when, variables, self._meter):
                return target.to
        return planned.following

    def _holds(self, step: StepExecution, text: str) -> bool:
        try:
            return holds(step.id, text, {"state": self.state, "input": self.run.input}, self._meter)
        except StepBroken as broken:
            self.put(replace(step, status="failed", error=broken.error, finished_at=self._now))
            raise

    def _take_signal(self, name: str) -> dict[str, Any] | None:
        for place, signal in enumerate(self.run.signals):
            if signal["name"] == name:
                self.run = replace(self.run, signals=[*self.run.signals[:place], *self.run.signals[place + 1 :]])
                return signal
        return None

    def _close(self, step: StepExecution, status: str, *, output: Any = None, error: Any = None) -> StepExecution:
        self.run = replace(self.run, active=[number for number in self.run.active if number != step.number])
        ended = released(step, None)
        kept = step.error if error is None else error
        return self.put(replace(ended, status=status, output=output, error=kept, accepted=None, finished_at=self._now))

    def _stop(self, step_id: str, error: Any) -> None:
        """Fail the run at a step: end what goes on beside it, and undo what was done."""
        self._cancel_active()
        top = self._plan.steps[step_id].top
        self.run = replace(self.run, error={"step": step_id, "error": error}, stopped_at=top)
        self._undo_next()

    def _undo_next(self) -> None:
        if self.run.undo is None:
            self._end("compensated" if self.run.undone else "failed")
            return
        done = self.step(self.run.undo)
        declared = self._plan.steps[done.id].declared
        assert declared.compensate is not None, "only such a step is undone"
        number = self.run.steps + 1
        self.run = replace(
            self.run,
            undo=done.undo,
            undone=self.run.undone + 1,
            steps=number,
            active=[*self.run.active, number],
            compensating=True,
        )
        self.put(
            StepExecution(
                self.run_id,
                number,
                self.run.name,
                done.id,
                declared.compensate,
                "compensation",
                done.visit,
                "pending",
                self._now,
                available_at=self._now,
                undoes=done.number,
            )
        )
        self.begun.append(number)

    def _cancel_active(self) -> None:
        for step in self.active():
            self._close(step, "cancelled")

    def _end(self, status: str) -> None:
        self.run = replace(self.run, status=status, finished_at=self._now, compensating=False)


def released(step: StepExecution, available_at: int | None) -> StepExecution:
    """Return a step that nobody has claimed: to be claimed from a moment on, or never."""
    return replace(
        step,
        status="pending",
        until=available_at,
        deadline=None,
        available_at=available_at,
        due_at=None,
    )


def accepted(step: StepExecution, status: str, result: Any, now: int) -> StepExecution:
    """Return a step with a result that its session does not have yet."""
    return replace(
        released(step, None),
        status=status,
        accepted={"status": status, "result": result},
        due_at=now,
        finished_at=now,
    )


def _told(before: str | None, status: str) -> list[str]:
    """Return the changes that a new status means."""
    if before is None:
        return ["started", *([status] if status in ENDED else [])]
    return ["resumed" if status == "running" else status]
