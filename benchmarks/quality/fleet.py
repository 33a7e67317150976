"""A fleet that holds the dialogues of a set, and answers their questions over the bus."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import hivemem
from benchmarks.fleets import running_fleet, worker_process
from benchmarks.quality.dialogues import Dataset, Dialogue, Question, Turn
from benchmarks.quality.scoring import Found
from benchmarks.quality.ways import Layout, Way
from hivemem_contracts.vectors.models import Recalled

T = TypeVar("T")

FOUND: Final = 60
AT_ONCE: Final = 8
BATCH: Final = 25
"""The turns of one write; those of an assistant can be long."""

NAMESPACE: Final = "user:speakers"
THREADS: Final = 2
"""The threads of an embedder."""

POLL_SECONDS: Final = 0.1
LONGEST_SECONDS: Final = 600.0
TIMEOUT_SECONDS: Final = 60.0
PASSED_ON: Final = ("HIVEMEM_EMBEDDER", "HIVEMEM_RERANKER")
"""Settings of the environment with these prefixes choose the models of the run."""


@dataclass(frozen=True)
class FilledFleet:
    """A fleet that holds a set, with a tenant for each dialogue."""

    servers: Mapping[str, str]
    hives: Mapping[str, hivemem.Hive]
    """The client of each dialogue's tenant, by the name of the dialogue."""

    async def embedder(self) -> str:
        overview = await next(iter(self.hives.values())).vectors.overview()
        return f"{overview.model}, {overview.dimension} numbers"

    async def answers(self, way: Way, dialogue: Dialogue) -> list[Found]:
        """Ask all questions of a dialogue, some at once, and return what each found."""
        hive, gate = self.hives[dialogue.name], asyncio.Semaphore(AT_ONCE)

        async def answer(question: Question) -> Found:
            async with gate:
                answer = await hive.request("vectors.recall", {"query": question.text, "limit": FOUND, **way.fields})
            assert isinstance(answer, hivemem.RecallAnswer)
            if answer.degraded is not None:
                raise RuntimeError(f"{dialogue.name}: {question.text!r}: {answer.degraded.detail}")
            return [_turns(item) for item in answer.items]

        return list(await asyncio.gather(*map(answer, dialogue.questions)))


@asynccontextmanager
async def filled_fleet(directory: Path, layout: Layout, dataset: Dataset) -> AsyncGenerator[FilledFleet]:
    """Run a fleet, and yield it once all dialogues are indexed."""
    write = _put_memories if layout == "memories" else _append_events
    async with AsyncExitStack() as stack:
        fleet = stack.enter_context(running_fleet(directory, "sqlite", "memory"))
        models = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        settings = {**fleet.settings, "HIVEMEM_EMBEDDER_THREADS": str(THREADS), **models}
        for service in ("sessions", "vectors"):
            stack.enter_context(worker_process(directory / service, service, settings))
        hives: dict[str, hivemem.Hive] = {}
        for dialogue in dataset.dialogues:
            connecting = hivemem.connect(
                fleet.url, tenant=dialogue.name, agent="quality", timeout_seconds=TIMEOUT_SECONDS
            )
            hives[dialogue.name] = await stack.enter_async_context(connecting)
            await write(hives[dialogue.name], dialogue)
        for dialogue in dataset.dialogues:
            await _indexed(hives[dialogue.name], sum(bool(turn.text.strip()) for turn in dialogue.turns))
        yield FilledFleet(fleet.servers, hives)


async def _put_memories(hive: hivemem.Hive, dialogue: Dialogue) -> None:
    for turns in _batches(dialogue.turns):
        puts = [{"namespace": NAMESPACE, "key": turn.id, "value": turn.line} for turn in turns]
        await hive.request("memory.put_batch", {"puts": puts})


async def _append_events(hive: hivemem.Hive, dialogue: Dialogue) -> None:
    for session_id in dict.fromkeys(turn.session for turn in dialogue.turns):
        await hive.sessions.create(
            session_id=session_id, app_name="dialogues", user_id=dialogue.name, metadata={"index_events": True}
        )
    for turns in _batches(dialogue.turns):
        appends = [{"session_id": turn.session, "event": _event(turn)} for turn in turns]
        await hive.request("sessions.append_batch", {"appends": appends})


def _event(turn: Turn) -> dict[str, Any]:
    event = {"event_id": turn.id, "type": "message", "author": turn.speaker, "content": {"text": turn.text}}
    return event if turn.at is None else event | {"occurred_at": turn.at}


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


async def _indexed(hive: hivemem.Hive, count: int) -> None:
    async with asyncio.timeout(LONGEST_SECONDS):
        while True:
            overview = await hive.vectors.overview()
            if overview.failed:
                raise RuntimeError(f"{hive.tenant}: indexing failed for {overview.failed} turns")
            if overview.synced >= count and overview.waiting == overview.pending == overview.stale == 0:
                return
            await asyncio.sleep(POLL_SECONDS)


def _turns(item: Recalled) -> list[str]:
    around = [] if item.context is None else [*item.context.before, *item.context.after]
    return [item.key, *(turn.key for turn in around)]
