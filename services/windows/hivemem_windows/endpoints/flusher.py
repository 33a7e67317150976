"""Flushes of windows: queued ones, and requested ones."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import orjson
import structlog

from hivemem_contracts.errors import HiveError, NotFound
from hivemem_contracts.identifiers import new_id
from hivemem_runtime.background import LoopingBackground
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.ledger.port import Committed, Decide, Ledger, Outcome, system_write, value_of
from hivemem_runtime.summaries import Summarizer, SummaryText, rule_summary
from hivemem_windows.decisions.flushing import (
    FlushPlan,
    Replan,
    apply_flush,
    claim_flush,
    drop_flush,
    plan_flush,
    queue_by_time,
)
from hivemem_windows.decisions.windows import Rules
from hivemem_windows.endpoints.message_cache import MessageCache
from hivemem_windows.endpoints.resource_rules import ResourceRules
from hivemem_windows.entities.contents import CONTENT, Content
from hivemem_windows.entities.windows import WINDOW

log = structlog.get_logger("hivemem.windows")

QUEUED: Final = 10_000
"""The most windows that wait for this worker; the sweep finds further ones."""
AT_ONCE: Final = 8
CLAIM_SECONDS: Final = 120.0
"""How long a worker may take for a summary before another one makes it as well; only one of them is applied."""
SUMMARIZED: Final = 2_000
"""The messages that one summary is made from: the newest ones."""
TRIES: Final = 10


class Flusher(LoopingBackground):
    def __init__(self, ledger: Ledger, rules: ResourceRules, summarizer: Summarizer) -> None:
        super().__init__("flusher")
        self._ledger, self._rules, self._summarizer = ledger, rules, summarizer
        self._cache = MessageCache(ledger)
        self._runner = new_id()
        self._queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue(QUEUED)
        self._under_way: set[tuple[str, str]] = set()
        ledger.on_commit(self._committed)

    def _committed(self, records: Sequence[Committed]) -> None:
        for committed in records:
            if committed.entity is not WINDOW or committed.erased or committed.record.operation != "appended":
                continue
            if committed.record.value["flush"] == "queued":
                self.queue(committed.stamp.tenant, committed.stamp.id)

    def queue(self, tenant: str, id: str) -> None:
        """Flush a window soon, if a flush of it is queued. What finds no room here is found by the next sweep."""
        with suppress(asyncio.QueueFull):
            self._queue.put_nowait((tenant, id))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._work())

    async def _work(self) -> None:
        while not self.stopping:
            window = await self._queue.get()
            if window in self._under_way:
                continue
            self._under_way.add(window)
            try:
                await self.flush(*window)
            except HiveError as error:
                log.warning("flush postponed", window=window[1], error=str(error))
            except Exception:
                log.exception("flush failed", window=window[1])
            finally:
                self._under_way.discard(window)

    async def flush(self, tenant: str, id: str) -> dict[str, Any] | None:
        """Do the queued flush of a window, and return its outcome; None if there was nothing to do here."""
        for _ in range(TRIES):
            content = value_of(await self._ledger.head(CONTENT, tenant, id))
            if content is None or content.flush_at is None:
                return None
            try:
                rules = await self._rules.rules(tenant, content.resource)
            except NotFound:
                await self._commit(tenant, id, lambda heads, now: drop_flush(heads, id))
                return None
            if content.flush is None:
                if not await self._queued_by_time(tenant, id, rules):
                    return None
                continue
            with suppress(Replan):
                return await self._flush(tenant, id, content, rules)
        return None

    async def _flush(self, tenant: str, id: str, content: Content, rules: Rules) -> dict[str, Any] | None:
        plan = plan_flush(content, rules)
        if plan.summary == "model" and not await self._claim(tenant, id, plan.flush_id):
            return None
        began = elapsed_seconds()
        summary, fallback = await self._summary(tenant, id, content, plan, rules)
        took_ms = int((elapsed_seconds() - began) * 1_000)
        apply = partial(apply_flush, id=id, plan=plan, summary=summary, rules=rules, fallback=fallback, took_ms=took_ms)
        outcome = await self._ledger.commit(
            system_write(tenant, WINDOW, id, lambda heads, now: apply(heads, now=now), ((CONTENT, id),))
        )
        answer: dict[str, Any] | None = outcome.answer
        return answer

    async def _queued_by_time(self, tenant: str, id: str, rules: Rules) -> bool:
        queued = await self._commit(tenant, id, lambda heads, now: queue_by_time(heads, id, rules, now))
        return queued.stamp is not None

    async def _claim(self, tenant: str, id: str, flush_id: str) -> bool:
        claim = partial(claim_flush, id=id, flush_id=flush_id, runner=self._runner, seconds=CLAIM_SECONDS)
        return bool((await self._commit(tenant, id, lambda heads, now: claim(heads, now=now))).answer)

    async def _commit(self, tenant: str, id: str, decide: Decide) -> Outcome:
        return await self._ledger.commit(system_write(tenant, CONTENT, id, decide))

    async def _summary(
        self, tenant: str, id: str, content: Content, plan: FlushPlan, rules: Rules
    ) -> tuple[dict[str, Any] | None, str | None]:
        """Return the summary, of at most the tokens of the messages that it replaces, and why the model failed."""
        if plan.summary == "none" or not plan.sequences:
            return None, None
        before = content.summary
        sequences = plan.sequences[-SUMMARIZED:]
        found = await self._cache.messages(tenant, id, sequences)
        messages = [orjson.loads(found[sequence]) for sequence in sequences if sequence in found]
        if before is not None:
            messages.insert(0, {"role": "summary", "content": before["text"], "tokens": before["tokens"]})
        limit = min(rules.limits.summary_tokens, sum(message["tokens"] for message in messages))

        def count(text: str) -> int:
            return rules.counter.count_message({"role": "system", "content": text})

        if plan.summary == "rule":
            text = await asyncio.to_thread(rule_summary, messages, limit, count)
            made = SummaryText(text, count(text), "rule")
        else:
            made = await self._summarizer.summarize(messages, limit, count)
        if not made.text or made.tokens > limit:
            return None, made.fallback
        summary = {
            "text": made.text,
            "tokens": made.tokens,
            "messages": len(plan.sequences) + (0 if before is None else before["messages"]),
            "by": made.by,
            "through": plan.sequences[-1] if before is None else max(plan.sequences[-1], before["through"]),
        }
        return summary, made.fallback
