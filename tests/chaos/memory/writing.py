"""One writer of memories: sends a write, waits for its answer, and now and then repeats an old one."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from nats.aio.client import Client

from ..asking import Asking, Refused
from ..journal import Sent
from .journal import Journal, Refusal

Body = dict[str, Any]

THINK_SECONDS: Final = 0.004
"""A pause between two writes of a writer, which leaves the servers under test a processor when they restart."""
REPEATED: Final = 0.1
_REMEMBERED: Final = 20


def place(namespace: str, key: str) -> str:
    return f"{namespace} {key}"


def memory(namespace: str, key: str, **fields: Any) -> Body:
    return {"namespace": namespace, "key": key, **fields}


class Writer:
    """An agent whose writes are numbered in the order in which it sends them."""

    def __init__(
        self, name: str, clients: Sequence[Client], journal: Journal, seed: int, stopping: Callable[[], bool]
    ) -> None:
        self.name = name
        self.asking = Asking(clients[sum(name.encode()) % len(clients)], "memory", name)
        self.journal = journal
        self.stopping = stopping
        self.choice = random.Random(f"{seed}/{name}")
        self.number = 0
        self._recent: list[Sent] = []

    def next_id(self) -> str:
        self.number += 1
        return f"{self.name}-{self.number}"

    def value(self) -> Body:
        """Return a value that identifies the next write."""
        return {"writer": self.name, "number": self.number + 1}

    async def write(self, kind: str, body: Body, *, repeats: bool = True) -> Body:
        """Write and return the answer. Raises `Refused`."""
        sent = self._note(kind, body, self.next_id())
        try:
            sent.answer = await self.asking.request(kind, body, sent.id)
        except Refused as refused:
            self.journal.sent.remove(sent)
            if refused.tries > 1:
                self.journal.unsure.add(sent.id)
            raise
        if sent.id in self.asking.resent:
            self.journal.resent.add(sent.id)
        if repeats:
            await self._maybe_repeat(sent)
        await asyncio.sleep(THINK_SECONDS)
        return sent.answer

    async def try_to_write(self, kind: str, body: Body, expected: Sequence[str]) -> Body | None:
        """Write and return the answer, or None if one of the expected errors refused it."""
        try:
            return await self.write(kind, body, repeats=False)
        except Refused as refused:
            if refused.name not in expected:
                raise
            self.journal.refusals.append(Refusal(f"{self.name}-{self.number}", refused.name))
            return None

    async def write_batch(self, bodies: Sequence[Body]) -> None:
        id = self.next_id()
        parts = [self._note("put", body, id) for body in bodies]
        whole = {"puts": list(bodies)}
        answer = await self.asking.request("put_batch", whole, id)
        for sent, result in zip(parts, answer["results"], strict=True):
            sent.answer = result
            if result["error"] is not None:
                self._find(sent, f"was refused in a batch: {result['error']}")
        if self.choice.random() < REPEATED:
            again = await self.asking.request("put_batch", whole, id)
            for sent, result in zip(parts, again["results"], strict=True):
                self._compare(sent, result)
        await asyncio.sleep(THINK_SECONDS)

    async def publish(self, kind: str, body: Body, *, repeats: bool = True) -> Sent:
        """Publish a durable command; its route is the namespace."""
        sent = self._note(kind, body, self.next_id())
        sent.durable = True
        sent.answer = await self.asking.command(kind, body["namespace"], body, sent.id)
        if repeats:
            self._recent = [*self._recent[-_REMEMBERED:], sent]
            if self.choice.random() < REPEATED:
                old = self.choice.choice(self._recent)
                await self.asking.command(old.kind, old.body["namespace"], old.body, old.id)
                self.journal.repeated += 1
        await asyncio.sleep(THINK_SECONDS)
        return sent

    def _note(self, kind: str, body: Body, id: str) -> Sent:
        sent = Sent(id, kind, place(body["namespace"], body["key"]), self.name, self.number, body)
        self.journal.sent.append(sent)
        return sent

    async def _maybe_repeat(self, sent: Sent) -> None:
        self._recent = [*self._recent[-_REMEMBERED:], sent]
        if self.choice.random() < REPEATED:
            old = self.choice.choice(self._recent)
            self._compare(old, await self.asking.request(old.kind, old.body, old.id))

    def _compare(self, sent: Sent, again: Body) -> None:
        self.journal.repeated += 1
        first = sent.answer or {}
        if {**again, "duplicate": True} != {**first, "duplicate": True} or again["duplicate"] is not True:
            self._find(sent, f"was answered {first} and, sent again, {again}")

    def _find(self, sent: Sent, what: str) -> None:
        self.journal.findings.append(f"{sent.place}: {sent.id} {what}")
