"""The load: twenty agents that work on each other's runs, die between any two requests, and freeze over their claims.

Each cycle of an agent starts one run. A step writes a memory that all runs share, under one sender's name and an id of
the step, so that all attempts of the step write it once.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from nats.aio.client import Client

from .. import journal
from ..agents.load import output_of
from ..asking import Asking, Refused
from ..journal import Sent
from ..service import Stopping

Body = dict[str, Any]

AGENTS: Final = 20
WORKFLOW: Final = "order"
SESSION: Final = "shared"
NAMESPACE: Final = "app:chaos"
KEYS: Final = ("north", "south", "west")
ENDED: Final = ("completed", "compensated", "failed", "cancelled")
STEPS: Final = (
    {"id": "draft", "save": "app:draft", "retry": {"attempts": 2, "delay_seconds": 0.01}},
    {
        "id": "check",
        "save": "user:check",
        "compensate": "uncheck",
        "next": [{"when": "output.number <= input.rounds", "to": "check"}],
    },
    {"id": "both", "parallel": [[{"id": "left", "save": "left"}], [{"id": "right"}, {"id": "after"}]]},
    {"id": "nap", "sleep_seconds": 0.01},
    {"id": "pay"},
)
_LEASE_MS: Final = 1_500
_FROZEN_SECONDS: Final = 2.0
_WAIT_MS: Final = 200
_DIES: Final = 0.02
"""The probability of a death at each of the places where an agent may die."""
_FREEZES: Final = 0.02
_LOST: Final = ("LeaseHeld", "IllegalTransition")


class Died(Exception):
    """The agent's process ends here, and a new one knows nothing."""


@dataclass(slots=True)
class Journal(journal.Journal):
    inputs: dict[str, Body] = field(default_factory=dict[str, Body])
    """The input of each run; one in `sessions` belongs to the shared session."""
    sessions: set[str] = field(default_factory=set[str])
    claims: dict[tuple[str, int, int], str] = field(default_factory=dict[tuple[str, int, int], str])
    """Which claim was given each attempt of a step."""
    reports: dict[tuple[str, int], tuple[int, Body]] = field(default_factory=dict[tuple[str, int], tuple[int, Body]])
    """The acknowledged attempt of each step, with its result."""
    deaths: int = 0
    lost: int = 0

    def summary(self) -> str:
        base = journal.Journal.summary(self)
        return f"{base}, {len(self.inputs)} runs, {self.deaths} deaths, {self.lost} steps lost to another agent"


def key_of(run_id: str, number: int) -> str:
    """Return the key of the memory that a step writes."""
    return KEYS[sum(f"{run_id}{number}".encode()) % len(KEYS)]


def fails_once(run_id: str) -> bool:
    """Return whether the first attempt at the first step of a run fails."""
    return sum(run_id.encode()) % 4 == 0


async def run_agents(clients: Sequence[Client], journal: Journal, seed: int, stopping: Stopping) -> None:
    first = clients[0]
    await Asking(first, "agents").request("workflow_put", {"name": WORKFLOW, "definition": {"steps": STEPS}}, "put")
    created = {"session_id": SESSION, "app_name": "chaos", "user_id": "ann"}
    await Asking(first, "sessions").request("create", created, "create")
    agents = [_Agent(clients[number % len(clients)], journal, f"agent-{number}", seed) for number in range(AGENTS)]
    await asyncio.gather(*(agent.live(stopping) for agent in agents))


class _Agent:
    """An agent whose process is started again after each death."""

    def __init__(self, client: Client, journal: Journal, name: str, seed: int) -> None:
        self._agents = Asking(client, "agents", name)
        self._memory = Asking(client, "memory")
        self._journal = journal
        self._name = name
        self._choice = random.Random(f"{seed}/{name}")
        self._claims = 0

    async def live(self, stopping: Stopping) -> None:
        try:
            await self._write("register", 0)
            while await self._cycle(stopping):
                pass
        except Refused as refused:
            self._journal.findings.append(f"{self._name}: refused: {refused}")

    async def _cycle(self, stopping: Stopping) -> bool:
        """Do the next step of the agent's cycle. Return False at the end of a cycle when the load stops."""
        standing = await self._agents.request("resume", {"agent_id": self._name})
        number = standing["agent"]["cycles"]
        run_id = f"{self._name}-{number}"
        try:
            match standing["step"]:
                case "begin":
                    if stopping():
                        return False
                    await self._write("cycle_begin", number + 1)
                case "propose":
                    await self._start(run_id, number)
                    self._may_die()
                    await self._write("propose", number, number=number, plan=run_id)
                case _:
                    await self._work_until_ended(run_id)
                    output = output_of(self._name, number)
                    await self._write("complete", number, number=number, outcome="success", output=output)
        except Died:
            self._journal.deaths += 1
        return True

    async def _start(self, run_id: str, number: int) -> None:
        # The same for each process that begins this run.
        choice = random.Random(run_id)
        body: Body = {"name": WORKFLOW, "run_id": run_id}
        body["input"] = {"rounds": choice.randint(1, 3), "fails": choice.random() < 0.3}
        if choice.random() < 0.5:
            body["session_id"] = SESSION
            self._journal.sessions.add(run_id)
        self._journal.inputs[run_id] = body["input"]
        try:
            await self._agents.request("run_start", body, f"start-{run_id}")
        except Refused as refused:
            if refused.name != "AlreadyExists":
                raise

    async def _work_until_ended(self, run_id: str) -> None:
        while True:
            self._claims += 1
            id = f"{self._name}-claim-{self._claims}"
            body = {"name": WORKFLOW, "lease": _LEASE_MS, "wait_ms": _WAIT_MS, "limit": self._choice.randint(1, 2)}
            claimed = (await self._agents.request("step_claim", body, id))["items"]
            self._may_die()
            for step in claimed:
                self._note_claim(step, id)
                await self._do(step)
            if not claimed:
                run = await self._agents.request("run_get", {"run_id": run_id, "limit": 1})
                if run["status"] in ENDED:
                    return

    def _note_claim(self, step: Body, id: str) -> None:
        attempt = step["run_id"], step["number"], step["attempt"]
        holder = self._journal.claims.setdefault(attempt, id)
        if holder != id:
            self._journal.findings.append(f"{attempt} was given to {holder} and to {id}")

    async def _do(self, step: Body) -> None:
        """Write the memory of the step, record its version as the step's side effect, and report it."""
        run_id, number = step["run_id"], step["number"]
        named = {name: step[name] for name in ("run_id", "step", "token")}
        once = {**named, "key": "memory"}
        recorded = await self._agents.request("step_once", once)
        if not recorded["recorded"]:
            value = {"run_id": run_id, "number": number}
            memory = {"namespace": NAMESPACE, "key": key_of(run_id, number), "value": value}
            written = await self._memory.request("put", memory, f"{run_id}-{number}")
            self._may_die()
            recorded = await self._agents.request("step_once", {**once, "result": written["version"]})
        if self._choice.random() < _FREEZES:
            await asyncio.sleep(_FROZEN_SECONDS)
        self._may_die()
        result: Body = {"output": {"number": number, "version": recorded["result"]}}
        if step["step"] == "pay" and step["input"]["fails"]:
            result = {"error": "no money"}
        elif step["step"] == "draft" and step["attempt"] == 1 and fails_once(run_id):
            result = {"error": "once"}
        await self._report({**named, "attempt": step["attempt"], **result}, number)

    async def _report(self, body: Body, number: int) -> None:
        run_id, attempt = body["run_id"], body["attempt"]
        sent = Sent(f"{run_id}-{number}-{attempt}", "step_report", run_id, self._name, number, body)
        try:
            answer = await self._agents.request("step_report", body)
        except Refused as refused:
            if refused.name not in _LOST:
                raise
            self._journal.lost += 1
            return
        sent.answer = answer
        self._journal.sent.append(sent)
        if answer["status"] == "pending":
            return
        before = self._journal.reports.setdefault((run_id, number), (attempt, body))
        if before[0] != attempt:
            self._journal.findings.append(f"{run_id}, step {number}: attempts {before[0]} and {attempt} were accepted")

    def _may_die(self) -> None:
        if self._choice.random() < _DIES:
            raise Died

    async def _write(self, operation: str, place: int, /, **fields: object) -> None:
        """Write under an id of the cycle, as the next process does again."""
        id = f"{self._name}-{operation}-{place}"
        sent = Sent(id, operation, self._name, self._name, place, {"agent_id": self._name, **fields})
        self._journal.sent.append(sent)
        sent.answer = await self._agents.request(operation, sent.body, id)
