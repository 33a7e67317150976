"""The rules of flushing: when a flush is due, which units it takes, and how it is applied once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hivemem_contracts.errors import Overloaded
from hivemem_contracts.identifiers import derived_id
from hivemem_contracts.memory.models import LeaseClaim
from hivemem_runtime.ledger.port import Append, Decided, Heads, value_of
from hivemem_windows.decisions.drafts import Draft
from hivemem_windows.decisions.limits import DEFAULT_THRESHOLD, KEPT_BESIDE_A_SUMMARY, Limits
from hivemem_windows.decisions.windows import Rules, WindowName, require_open
from hivemem_windows.entities.contents import CONTENT, Content
from hivemem_windows.entities.messages import FLUSH, FlushOutcome, flush_place
from hivemem_windows.entities.windows import WINDOW, WindowRecord

SUMMARIES: Final = {"hybrid_summary": "rule", "model_summary": "model"}
_BY_ORDER: Final = ("fifo", "lru", "lfu", "priority", "token_threshold")
"""The strategies that flush in an order, until half of the threshold is left."""
_SHARES: Final = ("long_term", "short_term")
ASKED: Final = 100
_SECOND: Final = 1_000_000


class Replan(Exception):
    """Messages were deleted since a flush was planned: what it says of them must be forgotten."""


@dataclass(frozen=True, slots=True)
class FlushPlan:
    """The units that a flush takes, and their messages."""

    flush_id: str
    strategy: str
    units: list[int]
    sequences: list[int]
    summary: str
    """How they are condensed: `none`, `rule` or `model`."""
    deletions: int


def next_flush(draft: Draft, rules: Rules, appended: int, now: int) -> dict[str, Any]:
    """Return the fields of the content that say when it is flushed next, after an append."""
    content, flushing = draft.content, rules.resource.flushing
    since = content.since_flush + appended
    if content.flush is not None or flushing is None:
        return {"flush": content.flush, "flush_at": content.flush_at, "since_flush": since}
    threshold = flushing.threshold
    if threshold is None and flushing.every_messages is None and flushing.every_seconds is None:
        threshold = DEFAULT_THRESHOLD
    due = flushing.every_messages is not None and since >= flushing.every_messages
    due = due or (threshold is not None and _filled(draft, rules, threshold))
    if due:
        flush_id = derived_id("flush", content.resource, content.key, str(draft.last))
        return {"flush": _queued(flush_id, flushing.strategy, now), "flush_at": now, "since_flush": since}
    flush_at = content.flush_at
    if flush_at is None and flushing.every_seconds is not None:
        flush_at = now + flushing.every_seconds * _SECOND
    return {"flush": None, "flush_at": flush_at, "since_flush": since}


def _filled(draft: Draft, rules: Rules, threshold: float) -> bool:
    tokens, messages = rules.limits.max_tokens, rules.resource.max_messages
    if tokens is not None and draft.total >= threshold * tokens:
        return True
    by_tokens_alone = rules.resource.flushing is not None and rules.resource.flushing.strategy == "token_threshold"
    return messages is not None and not by_tokens_alone and draft.count >= threshold * messages


def _queued(flush_id: str, strategy: str, now: int, asked: Sequence[str] = ()) -> dict[str, Any]:
    """Return a flush. `asked` are the ids under which requests wait for it."""
    return {"flush_id": flush_id, "strategy": strategy, "at": now, "asked": [*asked], "runner": None, "until": 0}


def ask_flush(
    heads: Heads,
    name: WindowName,
    rules: Rules,
    flush_id: str,
    strategy: str | None,
    lease: LeaseClaim | None,
    now: int,
) -> Sequence[Append[Any, Any]]:
    """Queue a flush that a request asks for. It joins one that is queued."""
    content = require_open(heads, name, rules, lease, now)
    flushing = rules.resource.flushing
    strategy = strategy or ("fifo" if flushing is None else flushing.strategy)
    flush = content.flush
    if flush is None:
        flush = _queued(flush_id, strategy, now, [flush_id])
    elif len(flush["asked"]) >= ASKED:
        raise Overloaded(f"{ASKED} requests wait for a flush of window {name.key!r}", retry_after_ms=1_000)
    else:
        flush = {**flush, "asked": [*flush["asked"], flush_id]}
    return [Append(CONTENT, name.id, replace(content, flush=flush, flush_at=now))]


def queue_by_time(heads: Heads, id: str, rules: Rules, now: int) -> Sequence[Append[Any, Any]]:
    """Queue the flush of a window whose time has come."""
    content = value_of(heads(CONTENT, id))
    if content is None or content.flush is not None or content.flush_at is None or content.flush_at > now:
        return []
    flushing = rules.resource.flushing
    if flushing is None or content.status != "open" or content.message_count() == 0:
        return [Append(CONTENT, id, replace(content, flush_at=None))]
    flush_id = derived_id("flush", content.resource, content.key, f"at {content.flush_at}")
    flush = _queued(flush_id, flushing.strategy, now)
    return [Append(CONTENT, id, replace(content, flush=flush, flush_at=now))]


def drop_flush(heads: Heads, id: str) -> Sequence[Append[Any, Any]]:
    """Give up the flush of a window whose resource is gone."""
    content = value_of(heads(CONTENT, id))
    return [] if content is None else [Append(CONTENT, id, replace(content, flush=None, flush_at=None))]


def claim_flush(heads: Heads, id: str, flush_id: str, runner: str, seconds: float, now: int) -> Decided:
    """Let one worker make the summary of a flush, for a time."""
    content = value_of(heads(CONTENT, id))
    flush = None if content is None else content.flush
    if content is None or flush is None or flush["flush_id"] != flush_id:
        return Decided((), False)
    if flush["runner"] not in (None, runner) and flush["until"] > now:
        return Decided((), False)
    claimed = {**flush, "runner": runner, "until": now + int(seconds * _SECOND)}
    return Decided([Append(CONTENT, id, replace(content, flush=claimed))], True)


def plan_flush(content: Content, rules: Rules) -> FlushPlan:
    """Return what the queued flush takes."""
    assert content.flush is not None, "a plan is made for a flush that is queued"
    strategy, flushing = content.flush["strategy"], rules.resource.flushing
    given = None if flushing is None or flushing.strategy != strategy else flushing.summary
    summary = given or SUMMARIES.get(strategy, "none")
    draft = Draft(content, rules.limits)
    kept = _kept(content, summary, 0 if flushing is None else flushing.keep_first, _keep_last(rules, summary))
    order = strategy if strategy in ("lru", "lfu", "priority") else "fifo"
    threshold = DEFAULT_THRESHOLD if flushing is None or flushing.threshold is None else flushing.threshold
    left, half = _measured(draft, rules.limits, threshold)
    tokens = {
        unit: size for share in _SHARES for unit, size in zip(draft.units[share], draft.tokens[share], strict=True)
    }
    units: list[int] = []
    sequences: list[int] = []
    for _, unit in draft.in_order(_SHARES, order):
        if unit in kept:
            continue
        if strategy in _BY_ORDER and left <= half:
            break
        gone = [unit, *(sequence for sequence, _ in content.results.get(str(unit), ()))]
        left -= tokens[unit] if rules.limits.max_tokens is not None else len(gone)
        units.append(unit)
        sequences += gone
    return FlushPlan(content.flush["flush_id"], strategy, units, sorted(sequences), summary, content.deletions)


def _measured(draft: Draft, limits: Limits, threshold: float) -> tuple[float, float]:
    """Return how full the window is, and how full a flush in an order leaves it."""
    full, limit = (draft.count, limits.max_messages) if limits.max_tokens is None else (draft.total, limits.max_tokens)
    return full, min(full, threshold * limit) / 2


def _keep_last(rules: Rules, summary: str) -> int:
    flushing = rules.resource.flushing
    if flushing is None or flushing.keep_last is None:
        return 0 if summary == "none" else KEPT_BESIDE_A_SUMMARY
    return flushing.keep_last


def _kept(content: Content, summary: str, first: int, last: int) -> set[int]:
    """Return the units of the first and the last messages, outside of the share of the system."""
    owners = sorted(
        (sequence, unit)
        for share in _SHARES
        for unit in content.units[share]
        for sequence in (unit, *(result for result, _ in content.results.get(str(unit), ())))
    )
    return {unit for _, unit in owners[:first] + owners[max(len(owners) - last, 0) :]}


def apply_flush(
    heads: Heads,
    id: str,
    plan: FlushPlan,
    summary: dict[str, Any] | None,
    rules: Rules,
    fallback: str | None,
    took_ms: int,
    now: int,
) -> Decided:
    """Take the planned units out of the window, once. Messages that arrived meanwhile stay. Raises `Replan`."""
    content = value_of(heads(CONTENT, id))
    flush = None if content is None else content.flush
    if content is None or flush is None or flush["flush_id"] != plan.flush_id:
        return Decided((), None)
    if content.deletions != plan.deletions:
        raise Replan
    draft = Draft(content, rules.limits)
    before = {"messages": draft.count, "tokens": draft.total}
    gone = draft.remove(plan.units)
    if summary is not None:
        draft.set_summary(summary)
    left = sorted(draft.evicted)
    value = {
        "flush_id": plan.flush_id,
        "strategy": plan.strategy,
        "before": before,
        "after": {"messages": draft.count, "tokens": draft.total},
        "summarized": 0 if summary is None else len(plan.sequences),
        "evicted": len(gone) + len(left),
        "fallback": fallback,
    }
    outcome = "fallback" if fallback is not None else "done" if gone else "empty"
    stats = _flushed(content.stats, plan.strategy, outcome, len(gone), None if summary is None else took_ms)
    stats["evicted"] = stats.get("evicted", 0) + len(left)
    failures = content.failures + 1 if fallback is not None else 0 if plan.summary == "model" else content.failures
    after = draft.finished(
        now,
        flush=None,
        flush_at=_next_by_time(rules, draft.count, now),
        flushed_at=now,
        since_flush=0,
        failures=failures,
        stats=stats,
    )
    appends: list[Append[Any, Any]] = [Append(WINDOW, id, WindowRecord("flushed", value))]
    if left:
        state = {"total_tokens": draft.total, "messages": draft.count}
        appends.append(Append(WINDOW, id, WindowRecord("evicted", {"sequences": left, **state})))
    appends.append(Append(CONTENT, id, after))
    appends += [Append(FLUSH, flush_place(id, asked), FlushOutcome(id, value)) for asked in flush["asked"]]
    return Decided(appends, value)


def _next_by_time(rules: Rules, messages: int, now: int) -> int | None:
    every = None if rules.resource.flushing is None else rules.resource.flushing.every_seconds
    return None if every is None or messages == 0 else now + every * _SECOND


def _flushed(stats: dict[str, Any], strategy: str, outcome: str, messages: int, took_ms: int | None) -> dict[str, Any]:
    flushes: dict[str, dict[str, int]] = stats.get("flushes", {})
    of_strategy = flushes.get(strategy, {})
    counted = {**flushes, strategy: {**of_strategy, outcome: of_strategy.get(outcome, 0) + 1}}
    after = {**stats, "flushes": counted, "flushed": stats.get("flushed", 0) + messages}
    if took_ms is not None:
        before = stats.get("summaries", {"count": 0, "total_ms": 0, "longest_ms": 0})
        after["summaries"] = {
            "count": before["count"] + 1,
            "total_ms": before["total_ms"] + took_ms,
            "longest_ms": max(before["longest_ms"], took_ms),
        }
    return after
