"""A window while a decision changes it: messages come and go, and after each one it is within its limits."""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hivemem_contracts.errors import TooLarge
from hivemem_contracts.limits import WINDOW_OPEN_CALLS
from hivemem_windows.decisions.limits import Limits
from hivemem_windows.entities.contents import SHARES, Content

USUAL_IMPORTANCE: Final = 500
_OTHERS: Final = ("long_term", "short_term")


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message that is counted and screened. `fields` is its wire format, without what the window adds."""

    message_id: str
    tokens: int
    fields: dict[str, Any]
    persist: bool = True

    @property
    def call_ids(self) -> list[str]:
        calls = self.fields.get("tool_calls") or ()
        return [call["id"] for call in calls if isinstance(call.get("id"), str)]


@dataclass(frozen=True, slots=True)
class Added:
    """The place of an appended message. The result of a tool call that has left is not in the window."""

    sequence: int
    unit: int
    share: str


class Draft:
    """The contents of a window, to be changed."""

    def __init__(self, content: Content, limits: Limits) -> None:
        self.content, self.limits = content, limits
        self.last = content.last
        self.units = {share: list(content.units[share]) for share in SHARES}
        self.tokens = {share: list(content.tokens[share]) for share in SHARES}
        self.pinned = set(content.pinned)
        self.importance = dict(content.importance)
        self.results = dict(content.results)
        self.used = dict(content.used)
        self.uses = dict(content.uses)
        self.calls = dict(content.calls)
        self.summary = content.summary
        self.of_shares = {share: sum(self.tokens[share]) for share in SHARES}
        self.count = content.message_count()
        self.evicted: list[int] = []

    @property
    def total(self) -> int:
        return sum(self.of_shares.values()) + (0 if self.summary is None else int(self.summary["tokens"]))

    def add(self, message: NewMessage) -> Added:
        """Append a message, and evict what must leave for it. Raises `TooLarge`."""
        self.last = sequence = self.last + 1
        call = message.fields.get("tool_call_id")
        unit = self.calls.pop(call, None) if call is not None else None
        if unit is not None and unit < 0:
            # Its call has left, so it follows.
            self.evicted.append(sequence)
            return Added(sequence, -unit, self._share_of(message))
        place = self._find(unit) if unit is not None else None
        if unit is None or place is None:
            unit, share = sequence, self._share_of(message)
            self._check(message, share, message.tokens)
            self._begin(unit, share, message)
        else:
            share, index = place
            self.tokens[share][index] += message.tokens
            self._check(message, share, self.tokens[share][index])
            self.results[str(unit)] = [*self.results.get(str(unit), ()), [sequence, message.tokens]]
        self.of_shares[share] += message.tokens
        self.count += 1
        for id in message.call_ids:
            self.calls[id] = unit
        while len(self.calls) > WINDOW_OPEN_CALLS:
            del self.calls[next(iter(self.calls))]
        self._make_room(unit, share, message)
        return Added(sequence, unit, share)

    def _begin(self, unit: int, share: str, message: NewMessage) -> None:
        self.units[share].append(unit)
        self.tokens[share].append(message.tokens)
        if message.fields.get("pinned"):
            self.pinned.add(unit)
        importance = message.fields.get("importance")
        if importance is not None:
            self.importance[str(unit)] = round(importance * 1_000)

    @staticmethod
    def _share_of(message: NewMessage) -> str:
        return message.fields.get("share") or ("system" if message.fields["role"] == "system" else "short_term")

    def _check(self, message: NewMessage, share: str, tokens: int) -> None:
        limit = self.limits.of_share(share)
        if limit is not None and tokens > limit:
            raise _too_large(message, share, limit, tokens)

    def _make_room(self, unit: int, share: str, message: NewMessage) -> None:
        """Evict until all limits hold. `unit` itself stays."""
        limits = self.limits
        own = limits.shares.get(share)
        if own is not None:
            self._evict((share,), lambda: self.of_shares[share] <= own, unit)
        if limits.shares:
            self._evict(("short_term",), self._fits, unit)
            self._evict(_OTHERS, lambda: self.count <= limits.max_messages, unit)
        else:
            self._evict(_OTHERS, self._fits, unit)
        if share == "system":
            self._evict(("system",), self._fits, unit)
        if not self._fits():
            self.summary = None
        if not self._fits() or (own is not None and self.of_shares[share] > own):
            kept = self.total - message.tokens if own is None else self.of_shares[share] - message.tokens
            limit = own if own is not None else limits.max_tokens
            if limit is None or (own is None and self.count > limits.max_messages):
                raise TooLarge(
                    f"message: the {limits.max_messages} messages of the window are all pinned or of the system",
                    field="message",
                    limit=limits.max_messages,
                    actual=self.count,
                )
            raise _too_large(message, share, max(limit - kept, 0), message.tokens)

    def _fits(self) -> bool:
        limit = self.limits.max_tokens
        return (limit is None or self.total <= limit) and self.count <= self.limits.max_messages

    def _evict(self, shares: Collection[str], enough: Callable[[], bool], keep: int | None) -> None:
        if enough():
            return
        for share, unit in self.in_order(shares, self.limits.eviction):
            if unit != keep:
                self.evicted += self._drop(share, bisect_left(self.units[share], unit))
                if enough():
                    return

    def in_order(self, shares: Collection[str], policy: str) -> Iterator[tuple[str, int]]:
        """Yield the units that a policy lets go, the first ones to go first.

        Most units have the usual rank, by which they are in order already, so only the others are sorted."""
        if policy == "priority":
            shares = [share for share in shares if share != "system"]
        found, usual = self._ranks(policy)
        ranks = dict(found)  # units leave while this goes on
        loose = heapq.merge(*map(self._loose_units, shares))
        ranked = ((usual(unit), unit, share) for unit, share in loose if not ranks or str(unit) not in ranks)
        for _, unit, share in heapq.merge(ranked, self._special_units(ranks, shares)):
            yield share, unit

    def _ranks(self, policy: str) -> tuple[dict[str, int], Callable[[int], int]]:
        """Return the units that have ranks of their own, and the rank of the others."""
        if policy == "lru":
            return self.used, lambda unit: 2 * unit
        if policy == "lfu":
            return self.uses, lambda unit: 0
        if policy == "priority":
            return self.importance, lambda unit: USUAL_IMPORTANCE
        return {}, lambda unit: unit

    def _loose_units(self, share: str) -> Iterator[tuple[int, str]]:
        return ((unit, share) for unit in self.units[share].copy() if unit not in self.pinned)

    def _special_units(self, ranks: dict[str, int], shares: Collection[str]) -> Iterator[tuple[int, int, str]]:
        heap = [(rank, int(unit)) for unit, rank in ranks.items()]
        heapq.heapify(heap)
        while heap:
            rank, unit = heapq.heappop(heap)
            place = self._find(unit)
            if place is not None and place[0] in shares and unit not in self.pinned:
                yield rank, unit, place[0]

    def touch(self, reads: dict[int, int]) -> None:
        """Count reads of units. A unit that has left is passed over."""
        there = {unit for share in SHARES for unit in self.units[share]}
        for unit in there.intersection(reads):
            self.used[str(unit)] = 2 * self.last + 1
            self.uses[str(unit)] = self.uses.get(str(unit), 0) + reads[unit]

    def _find(self, unit: int) -> tuple[str, int] | None:
        for share in SHARES:
            index = bisect_left(self.units[share], unit)
            if index < len(self.units[share]) and self.units[share][index] == unit:
                return share, index
        return None

    def _drop(self, share: str, index: int) -> list[int]:
        """Remove a unit and return its messages."""
        unit = self.units[share].pop(index)
        self.of_shares[share] -= self.tokens[share].pop(index)
        return self._forget(unit)

    def _forget(self, unit: int) -> list[int]:
        name = str(unit)
        gone = [unit, *(sequence for sequence, _ in self.results.pop(name, ()))]
        self.count -= len(gone)
        self.pinned.discard(unit)
        for known in (self.importance, self.used, self.uses):
            known.pop(name, None)
        if self.calls:
            self.calls = {call: -unit if of == unit else of for call, of in self.calls.items()}
        return gone

    def remove(self, units: Collection[int]) -> list[int]:
        """Remove units, where they still are, and return their messages."""
        gone: list[int] = []
        wanted = set(units)
        for share in SHARES:
            pairs = list(zip(self.units[share], self.tokens[share], strict=True))
            kept = [(unit, tokens) for unit, tokens in pairs if unit not in wanted]
            if len(kept) == len(pairs):
                continue
            self.units[share] = [unit for unit, _ in kept]
            self.tokens[share] = [tokens for _, tokens in kept]
            self.of_shares[share] = sum(self.tokens[share])
            for unit, _ in pairs:
                if unit in wanted:
                    gone += self._forget(unit)
        return sorted(gone)

    def set_summary(self, summary: dict[str, Any]) -> None:
        """Replace the summary. Messages leave until it fits; if that is not enough, the summary does."""
        self.summary = summary
        self._evict(("short_term",) if self.limits.shares else _OTHERS, self._fits, None)
        if not self._fits():
            self.summary = None

    def finished(self, now: int, **fields: Any) -> Content:
        """Return the content after the changes."""
        return replace(
            self.content,
            last=self.last,
            units=self.units,
            tokens=self.tokens,
            pinned=sorted(self.pinned),
            importance=self.importance,
            results=self.results,
            used=self.used,
            uses=self.uses,
            calls=self.calls,
            summary=self.summary,
            updated_at=now,
            **fields,
        )


def all_units(content: Content) -> Sequence[int]:
    return [unit for share in SHARES for unit in content.units[share]]


def _too_large(message: NewMessage, share: str, limit: int, actual: int) -> TooLarge:
    beside = " with its tool call" if message.fields.get("tool_call_id") else ""
    return TooLarge(
        f"message: {actual} tokens{beside}, the share {share!r} has room for {limit}",
        field="message",
        limit=limit,
        actual=actual,
    )
